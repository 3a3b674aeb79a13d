// Rows of a job's state. A key is "KIND/NUMBER", the number in 16 hexadecimal digits; a value is
// the FlatBuffer of a JobState (job_state.fbs) that has the one piece alone.

#include "ps/proto/state/job_rows.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "ps/proto/state/row_kinds.h"
#include "ps/proto/state/state_codec.h"

namespace ps::proto {
namespace {

constexpr size_t kNumberDigits = 16;

const RowKindInfo& InfoOf(RowKind kind) {
  return kRowKindInfos[static_cast<size_t>(kind)];
}

std::optional<RowId> ParseKey(std::string_view key) {
  const size_t slash = key.find('/');
  const auto* const info =
      std::ranges::find(kRowKindInfos, key.substr(0, slash), &RowKindInfo::name);
  if (slash == std::string_view::npos || info == kRowKindInfos.end() ||
      key.size() != slash + 1 + kNumberDigits) {
    return std::nullopt;
  }
  RowId id{static_cast<RowKind>(info - kRowKindInfos.begin()), 0};
  const char* const end = key.data() + key.size();
  std::from_chars(key.data() + slash + 1, end, id.number, 16);
  return key == RowKey(id) ? std::optional(id) : std::nullopt;
}

Status MergeRow(const SavedRow& row, RowId id, JobState* state) {
  PS_ASSIGN(JobState piece, DecodeParts(row.value, InfoOf(id.kind).parts));
  return InfoOf(id.kind).merge(&piece, id.number, state)
             ? Status::Ok()
             : Status::Corruption("it is not what is due in its place");
}

/// Those that every state has once, or the others.
Status MergeRowsOf(bool is_once, std::span<const SavedRow> rows, JobState* state) {
  std::array<bool, kRowKinds> is_there{};
  for (const SavedRow& row : rows) {
    const std::optional<RowId> id = ParseKey(row.key);
    if (!id) {
      return Status::Corruption(fmt::format("row {} is of no known kind", row.key));
    }
    if (InfoOf(id->kind).is_once == is_once) {
      PS_TRY(MergeRow(row, *id, state).Annotate(fmt::format("row {}", row.key)));
      is_there[static_cast<size_t>(id->kind)] = true;
    }
  }
  for (size_t kind = 0; is_once && kind < kRowKinds; ++kind) {
    if (kRowKindInfos[kind].is_once && !is_there[kind]) {
      return Status::Corruption(
          fmt::format("row {} is missing", RowKey({static_cast<RowKind>(kind), 0})));
    }
  }
  return Status::Ok();
}

/// What is counted of an epoch is what was taken from the queue, is not back in it, and is not
/// leased.
Status DeriveCounted(uint32_t epoch, LedgerState* ledger) {
  EpochRecord& record = ledger->epochs[epoch];
  record.counted = RangeSet();
  std::vector<std::pair<uint64_t, uint64_t>> others(
      record.returned.ranges().begin(), record.returned.ranges().end());
  for (const auto& [id, lease] : ledger->leases) {
    if (lease.epoch == epoch) {
      others.emplace_back(lease.next, lease.end);
    }
  }
  std::ranges::sort(others);
  others.emplace_back(record.fresh, record.fresh);
  uint64_t at = 0;
  for (const auto& [begin, end] : others) {
    if (begin < at || end < begin || end > record.fresh) {
      return Status::Corruption(
          fmt::format("samples [{}, {}) of epoch {} are in two places", begin, end, epoch));
    }
    if (begin > at) {
      record.counted.Insert(at, begin);
    }
    at = end;
  }
  return Status::Ok();
}

}  // namespace

std::string RowKey(RowId id) {
  return fmt::format("{}/{:016x}", InfoOf(id.kind).name, id.number);
}

std::vector<RowId> ListRows(const JobState& state) {
  std::vector<RowId> rows;
  std::vector<uint64_t> numbers;
  for (size_t kind = 0; kind < kRowKinds; ++kind) {
    numbers.clear();
    kRowKindInfos[kind].list(state, &numbers);
    for (const uint64_t number : numbers) {
      rows.push_back({static_cast<RowKind>(kind), number});
    }
  }
  return rows;
}

std::optional<std::vector<std::byte>> EncodeRow(const JobState& state, RowId id) {
  JobState piece;
  if (!InfoOf(id.kind).copy(state, id.number, &piece)) {
    return std::nullopt;
  }
  return EncodeParts(piece, InfoOf(id.kind).parts);
}

Result<JobState> MergeRows(std::span<const SavedRow> rows) {
  JobState state;
  PS_TRY(MergeRowsOf(true, rows, &state));  // lists begin where the totals say
  PS_TRY(MergeRowsOf(false, rows, &state));
  for (const auto& [id, lease] : state.ledger.leases) {
    if (lease.epoch >= state.ledger.epochs.size()) {
      return Status::Corruption(
          fmt::format("row {} is of an epoch without a row", RowKey({RowKind::kLease, id.value})));
    }
  }
  for (uint32_t epoch = 0; epoch < state.ledger.epochs.size(); ++epoch) {
    PS_TRY(DeriveCounted(epoch, &state.ledger)
               .Annotate(fmt::format("row {}", RowKey({RowKind::kEpoch, epoch}))));
  }
  return state;
}

}  // namespace ps::proto
