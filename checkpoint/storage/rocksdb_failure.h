#pragma once

#include <rocksdb/status.h>

#include "ps/base/status.h"

namespace ps::checkpoint {

/// Our code for what RocksDB says, by the table of failure.h; its text is kept.
Status ToStatus(const rocksdb::Status& status);

/// Whether a database can't be opened since another writer has it.
bool IsLockFailure(const rocksdb::Status& status);

/// Whether that writer is in this process.
bool IsLockedHere(const rocksdb::Status& status);

}  // namespace ps::checkpoint
