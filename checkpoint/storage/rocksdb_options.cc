#include "checkpoint/storage/rocksdb_options.h"

#include <rocksdb/cache.h>
#include <rocksdb/compaction_filter.h>
#include <rocksdb/env.h>
#include <rocksdb/rate_limiter.h>
#include <rocksdb/table.h>

#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "checkpoint/storage/rocksdb_storage.h"
#include "ps/base/crc32c.h"

namespace rocksdb::crc32c {

/// RocksDB checksums large values by CRC-32C, for which it has neither an option nor a hook, in no
/// version up to 11.9. Distributions build it for the oldest CPUs, so its own function goes by
/// table, at less than a tenth of the speed of ours. The loader takes the program's definition
/// before that of a shared library, so that RocksDB calls this one; the value is the same. It is
/// weak: where RocksDB is linked in, its own definition is taken, and none is there twice. Where
/// nobody asks for this one, only time is lost.
[[gnu::weak]] uint32_t Extend(uint32_t crc, const char* data, size_t bytes);

uint32_t Extend(uint32_t crc, const char* data, size_t bytes) {
  return ps::Crc32c(std::as_bytes(std::span(data, bytes)), crc);
}

}  // namespace rocksdb::crc32c

namespace ps::checkpoint {
namespace {

constexpr uint64_t kBlobBytesMin = 4096;  // values from this size on lie beside the tables
constexpr uint64_t kBytesPerSync = uint64_t{1} << 20;
constexpr size_t kBlockCacheBytes = size_t{1} << 20;

/// Says nothing: the database's owner has a log of its own.
class SilentLogger final : public rocksdb::Logger {
 public:
  using rocksdb::Logger::Logv;

  void Logv(const char* /*format*/, va_list /*arguments*/) override {}
};

class KeepFilter final : public rocksdb::CompactionFilter {
 public:
  explicit KeepFilter(std::shared_ptr<const Database::KeepFunction> keep)
      : keep_(std::move(keep)) {}

  const char* Name() const override { return "spotps.keep"; }

  /// Values beside the tables are not even read.
  Decision FilterBlobByKey(
      int /*level*/,
      const rocksdb::Slice& key,
      std::string* /*new_value*/,
      std::string* /*skip_until*/) const override {
    return (*keep_)(key.ToStringView()) ? Decision::kKeep : Decision::kRemove;
  }

  bool Filter(
      int /*level*/,
      const rocksdb::Slice& key,
      const rocksdb::Slice& /*value*/,
      std::string* /*new_value*/,
      bool* /*is_value_changed*/) const override {
    return !(*keep_)(key.ToStringView());
  }

 private:
  std::shared_ptr<const Database::KeepFunction> keep_;
};

class KeepFilterFactory final : public rocksdb::CompactionFilterFactory {
 public:
  explicit KeepFilterFactory(std::shared_ptr<KeepRule> rule) : rule_(std::move(rule)) {}

  const char* Name() const override { return "spotps.keep"; }

  std::unique_ptr<rocksdb::CompactionFilter> CreateCompactionFilter(
      const rocksdb::CompactionFilter::Context& /*context*/) override {
    auto keep = rule_->Get();
    return keep == nullptr ? nullptr : std::make_unique<KeepFilter>(std::move(keep));
  }

 private:
  std::shared_ptr<KeepRule> rule_;
};

}  // namespace

rocksdb::DBOptions MakeDbOptions(OpenMode mode, rocksdb::Env* env) {
  rocksdb::DBOptions options;
  options.env = env;
  options.create_if_missing = mode == OpenMode::kWrite;
  options.create_missing_column_families = mode == OpenMode::kWrite;
  // A reader opens what it can: a damaged table is an error of those who read it.
  options.paranoid_checks = mode == OpenMode::kWrite;
  options.info_log = std::make_shared<SilentLogger>();
  options.atomic_flush = true;
  options.avoid_flush_during_shutdown = true;
  options.bytes_per_sync = kBytesPerSync;
  options.advise_random_on_open = false;  // chunks are read in the order in which they lie
  options.max_background_flushes = 2;     // one writes while the disk syncs what the other wrote
  options.max_background_compactions = 1;
  options.stats_dump_period_sec = 0;
  options.stats_persist_period_sec = 0;
  options.rate_limiter.reset(rocksdb::NewGenericRateLimiter(kUnlimitedBytesPerS));
  return options;
}

rocksdb::ColumnFamilyOptions MakeColumnOptions(std::shared_ptr<KeepRule> rule) {
  rocksdb::ColumnFamilyOptions options;
  options.write_buffer_size = kWriteBufferBytes;
  options.max_write_buffer_number = kWriteBuffersMax;
  options.compression = rocksdb::kNoCompression;  // what can be compressed is so already
  options.enable_blob_files = true;
  options.min_blob_size = kBlobBytesMin;
  options.blob_compression_type = rocksdb::kNoCompression;
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = rocksdb::NewLRUCache(kBlockCacheBytes);
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  options.compaction_filter_factory = std::make_shared<KeepFilterFactory>(std::move(rule));
  return options;
}

}  // namespace ps::checkpoint
