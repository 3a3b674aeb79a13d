#include "tests/checkpoint/engines.h"

#include "checkpoint/storage/rocksdb_storage.h"
#include "tests/checkpoint/faulty_files.h"
#include "tests/checkpoint/memory_storage.h"
#include "tests/checkpoint/temporary_path.h"

namespace ps::checkpoint {
namespace {

class MemoryUnderTest final : public EngineUnderTest {
 public:
  Storage& storage() override { return storage_; }

  std::string path() const override { return "/memory"; }

 private:
  MemoryStorage storage_;
};

class RocksDbUnderTest final : public EngineUnderTest {
 public:
  Storage& storage() override { return *storage_; }

  std::string path() const override { return path_.path(); }

 private:
  TemporaryPath path_;
  std::unique_ptr<Storage> storage_ = MakeRocksDbStorage();
};

/// Through the files of the fault tests, which behave as long as nothing else is asked of them.
class FaultyFilesUnderTest final : public EngineUnderTest {
 public:
  Storage& storage() override { return *storage_; }

  std::string path() const override { return path_.path(); }

 private:
  TemporaryPath path_;
  FaultyFiles files_;
  std::unique_ptr<Storage> storage_ = MakeRocksDbStorage(files_.env());
};

template <typename Tested>
std::unique_ptr<EngineUnderTest> Make() {
  return std::make_unique<Tested>();
}

}  // namespace

std::vector<const Engine*> Engines() {
  static const std::vector<Engine> engines = {
      {.name = "Memory", .make = Make<MemoryUnderTest>},
      {.name = "RocksDb", .make = Make<RocksDbUnderTest>},
      {.name = "FaultyFiles", .make = Make<FaultyFilesUnderTest>}};
  std::vector<const Engine*> all;
  for (const Engine& engine : engines) {
    all.push_back(&engine);
  }
  return all;
}

std::string EngineName(const testing::TestParamInfo<const Engine*>& info) {
  return info.param->name;
}

}  // namespace ps::checkpoint
