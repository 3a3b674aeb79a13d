#pragma once

#include <cstddef>
#include <memory>

#include "checkpoint/storage/storage.h"

namespace rocksdb {
class Env;
}

namespace ps::checkpoint {

/// What an open database takes of memory for writes that are not on the disk yet, at most.
inline constexpr size_t kWriteBufferBytes = size_t{32} << 20;
inline constexpr int kWriteBuffersMax = 4;

/// Databases on the disk, by RocksDB. Large values lie in files of their own, so that they are
/// written once and compactions move keys alone. A database has a lock: its writer excludes others,
/// and the kernel gives it back when the writer's process is gone.
std::unique_ptr<Storage> MakeRocksDbStorage();

/// The same on other files than the machine's, for tests. `env` outlives the storage.
std::unique_ptr<Storage> MakeRocksDbStorage(rocksdb::Env* env);

}  // namespace ps::checkpoint
