#include "checkpoint/row_store.h"

#include <fmt/core.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <utility>

#include "ps/base/crc32c.h"

namespace ps::checkpoint {
namespace {

constexpr Column kRecordColumn = 0;
constexpr std::array<std::string_view, 1> kColumns = {"rows"};
/// In front of each value.
using Checksum = uint32_t;

Checksum ChecksumOf(std::string_view key, std::span<const std::byte> value) {
  return Crc32c(value, Crc32c(std::as_bytes(std::span(key))));
}

}  // namespace

Result<std::unique_ptr<RowStore>> RowStore::Open(
    Storage& storage, const std::string& directory, OpenMode mode) {
  PS_ASSIGN(auto database, storage.Open(directory, kColumns, mode));
  return std::unique_ptr<RowStore>(new RowStore(std::move(database)));
}

Status RowStore::Write(std::span<const RowChange> changes) {
  std::vector<Change> all;
  all.reserve(changes.size());
  std::vector<Checksum> checksums(changes.size());
  for (size_t i = 0; i < changes.size(); ++i) {
    const RowChange& change = changes[i];
    all.push_back({.kind = change.kind, .column = kRecordColumn, .key = change.key, .value = {}});
    if (change.kind == ChangeKind::kPut) {
      checksums[i] = ChecksumOf(change.key, change.value);
      all.back().value = {std::as_bytes(std::span(&checksums[i], 1)), change.value};
    }
  }
  return database_->Write(all, Durability::kLogged);
}

Result<std::vector<Row>> RowStore::Read(std::string_view prefix) {
  std::vector<Row> rows;
  PS_TRY(database_->Scan(
      kRecordColumn, prefix, [&](std::string_view key, std::span<const std::byte> record) {
        Checksum checksum = 0;
        if (record.size() < sizeof(checksum)) {
          return Status::Corruption(fmt::format("row {} is cut off", key));
        }
        std::memcpy(&checksum, record.data(), sizeof(checksum));
        const std::span<const std::byte> value = record.subspan(sizeof(checksum));
        if (checksum != ChecksumOf(key, value)) {
          return Status::Corruption(fmt::format("the checksum of row {} is wrong", key));
        }
        rows.push_back({.key = std::string(key), .value = {value.begin(), value.end()}});
        return Status::Ok();
      }));
  return rows;
}

}  // namespace ps::checkpoint
