#include "tests/checkpoint/engines.h"

#include "checkpoint/memory_storage.h"

namespace ps::checkpoint {
namespace {

class MemoryUnderTest final : public EngineUnderTest {
 public:
  Storage& storage() override { return storage_; }

  std::string path() const override { return "/memory"; }

 private:
  MemoryStorage storage_;
};

}  // namespace

std::vector<const Engine*> Engines() {
  static const std::vector<Engine> engines = {
      {.name = "Memory", .make = []() -> std::unique_ptr<EngineUnderTest> {
         return std::make_unique<MemoryUnderTest>();
       }}};
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
