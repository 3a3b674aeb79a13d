#include "ps/proto/state/job_state.h"

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "ps/base/check.h"
#include "ps/base/crc32c.h"
#include "ps/proto/state/job_rows.h"
#include "tests/fuzz/targets.h"

namespace ps::fuzz {
namespace {

// The header: magic, version, checksum, zero; each 4 bytes.
constexpr size_t kHeaderBytes = 16;
constexpr size_t kStateChecksumAt = 8;

using Rows = std::map<std::string, std::vector<std::byte>>;

Rows RowsOf(const proto::JobState& state) {
  Rows rows;
  for (const proto::RowId id : proto::ListRows(state)) {
    rows[proto::RowKey(id)] = proto::EncodeRow(state, id).value();
  }
  return rows;
}

Result<proto::JobState> Merge(const Rows& rows) {
  std::vector<proto::SavedRow> all;
  for (const auto& [key, value] : rows) {
    all.push_back({key, value});
  }
  return proto::MergeRows(all);
}

}  // namespace

bool FuzzJobRows(std::span<const uint8_t> input) {
  if (input.size() < 2) {
    return false;
  }
  Rows rows = RowsOf(proto::JobState{});
  const auto kind = static_cast<proto::RowKind>(input[0] % proto::kRowKinds);
  const auto value = std::as_bytes(input.subspan(2));
  rows[proto::RowKey({kind, input[1]})] = {value.begin(), value.end()};
  const Result<proto::JobState> state = Merge(rows);
  if (!state.ok()) {
    PS_CHECK(
        state.status().code() == StatusCode::kCorruption &&
        state.status().message().find("row ") != std::string_view::npos)
        << state.status();
    return false;
  }
  const Result<proto::JobState> again = Merge(RowsOf(*state));
  PS_CHECK(again.ok()) << again.status();
  PS_CHECK(proto::EncodeJobState(*again) == proto::EncodeJobState(*state)) << "rows lose something";
  return true;
}

std::vector<std::byte> WithStateChecksum(std::span<const uint8_t> input) {
  const auto as_bytes = std::as_bytes(input);
  std::vector<std::byte> bytes(as_bytes.begin(), as_bytes.end());
  if (bytes.size() > kHeaderBytes) {
    const uint32_t crc = Crc32c(std::span<const std::byte>(bytes).subspan(kHeaderBytes));
    std::memcpy(bytes.data() + kStateChecksumAt, &crc, sizeof crc);
  }
  return bytes;
}

bool FuzzJobState(std::span<const uint8_t> input) {
  const Result<proto::JobState> state = proto::DecodeJobState(WithStateChecksum(input));
  if (!state.ok()) {
    PS_CHECK(
        state.status().code() == StatusCode::kCorruption ||
        state.status().code() == StatusCode::kUnsupported)
        << state.status();
    return false;
  }
  const std::vector<std::byte> saved = proto::EncodeJobState(*state);
  const Result<proto::JobState> again = proto::DecodeJobState(saved);
  PS_CHECK(again.ok()) << again.status();
  PS_CHECK(proto::EncodeJobState(*again) == saved) << "saving loses something";
  return true;
}

}  // namespace ps::fuzz
