#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/storage/storage.h"
#include "ps/base/status.h"

namespace ps::checkpoint {

/// One change of rows. The views must hold until Write has returned.
struct RowChange {
  ChangeKind kind = ChangeKind::kPut;
  std::string_view key;              // or prefix
  std::span<const std::byte> value;  // kPut
};

struct Row {
  std::string key;
  std::vector<std::byte> value;

  friend bool operator==(const Row&, const Row&) = default;
};

/// Small rows in a database of their own, each with a checksum over key and value. Thread: any one
/// at a time.
class RowStore {
 public:
  /// Errors: those of Storage::Open.
  static Result<std::unique_ptr<RowStore>> Open(
      Storage& storage, const std::string& directory, OpenMode mode);

  /// All changes in order, or none. SIGKILL loses none that was written, a lost machine may lose
  /// the newest. Errors: kIo.
  Status Write(std::span<const RowChange> changes);

  /// Rows whose key begins with `prefix`, by key. Errors: kCorruption naming the row, kIo.
  Result<std::vector<Row>> Read(std::string_view prefix);

 private:
  explicit RowStore(std::unique_ptr<Database> database) : database_(std::move(database)) {}

  std::unique_ptr<Database> database_;
};

}  // namespace ps::checkpoint
