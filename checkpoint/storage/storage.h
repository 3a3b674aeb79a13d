#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ps/base/status.h"

namespace ps::checkpoint {

// Ordered keys and values on a disk: all that the stores of this folder ask of a storage engine.
// RocksDB is one (rocksdb_storage.h), memory another (tests/checkpoint/memory_storage.h); both pass
// the suite of tests/checkpoint/storage_test.cc.

/// A set of keys of its own inside a database, by its number in it.
using Column = uint8_t;

/// Keys are at most so long.
inline constexpr size_t kKeyBytesMax = 255;

/// kInvalidArgument when a key is too long.
Status CheckKey(std::string_view key);

/// What a write outlives once it has returned.
enum class Durability : uint8_t {
  kFlush,   // the process: not at all; survives everything after the next Flush
  kLogged,  // the process; a lost machine takes it along until the next synced write
  kSynced,  // the machine; so do all logged writes before it
};

enum class ChangeKind : uint8_t { kPut, kErase, kErasePrefix };

/// One change of a batch. The views must hold until Write has returned.
struct Change {
  ChangeKind kind = ChangeKind::kPut;
  Column column = 0;
  std::string_view key;
  std::vector<std::span<const std::byte>> value;  // kPut: these parts, one after another
};

/// Who finds out that a value was damaged on the disk.
enum class ReadCheck : uint8_t {
  kEngine,  // Read gives kCorruption
  kCaller,  // it checks the value itself, which is faster for large ones
};

/// One open database. Columns and durabilities do not mix: a column that is written with kFlush is
/// written so always. Thread: any one at a time; LimitWrites from any.
class Database {
 public:
  using Visitor = std::function<Status(std::string_view key, std::span<const std::byte> value)>;
  using KeepFunction = std::function<bool(std::string_view key)>;

  virtual ~Database() = default;

  /// All changes or none, after every crash too. Blocks while the disk is behind. Errors: kIo,
  /// with the disk's reason (full, read-only); kInvalidArgument when opened for reading.
  virtual Status Write(std::span<const Change> changes, Durability durability) = 0;

  /// All kFlush writes so far are on the disk, synced, or after a crash none since the last Flush
  /// that is not also in order: a later write never survives an earlier one. Errors: as Write.
  virtual Status Flush() = 0;

  /// Hands the value to `visit`, whose status is returned. Errors: kNotFound; kCorruption when the
  /// engine's own checksum does not fit, with kCaller only if it was looked at; kIo.
  virtual Status Read(
      Column column, std::string_view key, ReadCheck check, const Visitor& visit) = 0;

  /// All pairs whose key begins with `prefix`, by key, until `visit` returns a failure, which is
  /// returned. Errors: as Read.
  virtual Status Scan(Column column, std::string_view prefix, const Visitor& visit) = 0;

  /// Removes the keys of a column that `keep` refuses, now or later, and gives their space back.
  /// Requires: `keep` is a pure function and may be called from any thread until the database is
  /// closed or Prune is called again.
  virtual Status Prune(Column column, KeepFunction keep) = 0;

  /// How often a failure of the disk has cost the kFlush writes since the last Flush. A write after
  /// a failure first makes the database usable again: by writing what is in memory when the cause
  /// allows it (a disk that was full), else by opening it anew, which counts here.
  virtual uint64_t losses() const = 0;

  /// Background writes stay below so many bytes a second from now on; 0: as fast as the disk.
  virtual void LimitWrites(uint64_t bytes_per_s) = 0;
};

enum class OpenMode : uint8_t {
  kWrite,  // creates what is missing; one writer at a time
  kRead,   // what was there at opening; beside a writer too
};

/// A short text beside a database, for what has to be said when the disk takes nothing else: its
/// space is taken when the mark is made, so that it can be replaced on a full disk. It survives the
/// process; a lost machine may have any older text. Thread: any one at a time.
class Mark {
 public:
  /// A text is at most so long, and has no newline.
  static constexpr size_t kBytesMax = 63;

  virtual ~Mark() = default;

  /// Empty when nothing was ever written. Errors: kIo.
  virtual Result<std::string> Read() = 0;

  /// The new text or, when this fails, the old one. Errors: kIo.
  virtual Status Write(std::string_view text) = 0;
};

/// Where databases are. Thread: any.
class Storage {
 public:
  virtual ~Storage() = default;

  /// Opens the database in `directory`; column i has the name columns[i]. Errors: kUnavailable when
  /// it is open for writing already, here or in another process (the text says which); kNotFound
  /// when there is none to read; kCorruption; kIo.
  virtual Result<std::unique_ptr<Database>> Open(
      const std::string& directory, std::span<const std::string_view> columns, OpenMode mode) = 0;

  /// The mark of the database in `directory`, which has been opened for writing before. Creates
  /// what is missing. Errors: kIo.
  virtual Result<std::unique_ptr<Mark>> OpenMark(const std::string& directory) = 0;

  /// Names of the directories in `path`, by name. None when there is no such path.
  virtual Result<std::vector<std::string>> List(const std::string& path) = 0;

  /// Removes a database that nobody has open, and its mark. Errors: kUnavailable, kIo.
  virtual Status Remove(const std::string& directory) = 0;
};

}  // namespace ps::checkpoint
