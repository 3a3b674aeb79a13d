#pragma once

#include <rocksdb/options.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "checkpoint/storage/storage.h"

namespace ps::checkpoint {

/// The rate limiter's rate when nothing is limited.
inline constexpr int64_t kUnlimitedBytesPerS = int64_t{1} << 40;

/// What is kept of a column; shared with RocksDB's threads.
class KeepRule {
 public:
  void Set(Database::KeepFunction keep) {
    const std::lock_guard lock(mutex_);
    keep_ = std::make_shared<const Database::KeepFunction>(std::move(keep));
  }

  std::shared_ptr<const Database::KeepFunction> Get() const {
    const std::lock_guard lock(mutex_);
    return keep_;
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const Database::KeepFunction> keep_;  // null: everything
};

rocksdb::DBOptions MakeDbOptions(OpenMode mode, rocksdb::Env* env);

/// Options of a column whose compactions drop what `rule` does not keep.
rocksdb::ColumnFamilyOptions MakeColumnOptions(std::shared_ptr<KeepRule> rule);

}  // namespace ps::checkpoint
