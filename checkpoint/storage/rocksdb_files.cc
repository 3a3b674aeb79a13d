#include "checkpoint/storage/rocksdb_files.h"

#include <fmt/core.h>
#include <rocksdb/db.h>
#include <rocksdb/utilities/checkpoint.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "checkpoint/storage/rocksdb_options.h"
#include "ps/base/file.h"

namespace ps::checkpoint {
namespace {

rocksdb::Status Link(const std::string& directory, const std::string& target) {
  const rocksdb::DBOptions options = MakeDbOptions(OpenMode::kRead, rocksdb::Env::Default());
  // A column that is not opened is not linked.
  std::vector<std::string> columns;
  rocksdb::Status status = rocksdb::DB::ListColumnFamilies(options, directory, &columns);
  if (!status.ok()) {
    return status;
  }
  std::vector<rocksdb::ColumnFamilyDescriptor> descriptors;
  for (const std::string& column : columns) {
    descriptors.emplace_back(column, MakeColumnOptions(std::make_shared<KeepRule>()));
  }
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* opened = nullptr;
  status = rocksdb::DB::OpenForReadOnly(options, directory, descriptors, &handles, &opened);
  const std::unique_ptr<rocksdb::DB> db(opened);
  if (!status.ok()) {
    return status;
  }
  rocksdb::Checkpoint* made = nullptr;
  status = rocksdb::Checkpoint::Create(db.get(), &made);
  const std::unique_ptr<rocksdb::Checkpoint> checkpoint(made);
  if (status.ok()) {
    // Nothing is flushed: what matters is on the disk, and a reader has nothing else.
    status = checkpoint->CreateCheckpoint(target, std::numeric_limits<uint64_t>::max());
  }
  for (rocksdb::ColumnFamilyHandle* const handle : handles) {
    db->DestroyColumnFamilyHandle(handle).PermitUncheckedError();
  }
  return status;
}

}  // namespace

Status LinkDatabase(const std::string& directory, const std::string& target) {
  PS_ASSIGN(const bool is_there, IsThere(directory + "/CURRENT"));
  if (!is_there) {
    return Status::NotFound(fmt::format("no checkpoints in {}", directory));
  }
  // The writer may remove a file between its being listed and its being linked.
  constexpr int kAttempts = 10;
  rocksdb::Status status;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    status = Link(directory, target);
    if (status.ok()) {
      return Status::Ok();
    }
    if (!status.IsPathNotFound() && !status.IsNotFound() && !status.IsCorruption()) {
      break;
    }
  }
  const std::string text =
      fmt::format("cannot link the files of {}: {}", directory, status.ToString());
  return status.IsPathNotFound() ? Status::Unavailable(text) : Status::Io(text);
}

}  // namespace ps::checkpoint
