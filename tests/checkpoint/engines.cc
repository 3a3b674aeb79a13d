#include "tests/checkpoint/engines.h"

#include <cstdlib>
#include <filesystem>

#include "checkpoint/memory_storage.h"
#include "checkpoint/rocksdb_storage.h"
#include "ps/base/check.h"

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
  RocksDbUnderTest() {
    std::string pattern = testing::TempDir() + "checkpoint-XXXXXX";
    PS_CHECK(::mkdtemp(pattern.data()) != nullptr) << pattern;
    path_ = pattern;
  }

  RocksDbUnderTest(const RocksDbUnderTest&) = delete;
  RocksDbUnderTest& operator=(const RocksDbUnderTest&) = delete;

  ~RocksDbUnderTest() override { std::filesystem::remove_all(path_); }

  Storage& storage() override { return *storage_; }

  std::string path() const override { return path_; }

 private:
  std::string path_;
  std::unique_ptr<Storage> storage_ = MakeRocksDbStorage();
};

template <typename Tested>
std::unique_ptr<EngineUnderTest> Make() {
  return std::make_unique<Tested>();
}

}  // namespace

std::vector<const Engine*> Engines() {
  static const std::vector<Engine> engines = {
      {.name = "Memory", .make = Make<MemoryUnderTest>},
      {.name = "RocksDb", .make = Make<RocksDbUnderTest>}};
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
