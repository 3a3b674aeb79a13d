#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "checkpoint/storage/storage.h"

namespace ps::checkpoint {

/// A storage for one test, with a place of its own that goes with it.
class EngineUnderTest {
 public:
  virtual ~EngineUnderTest() = default;
  virtual Storage& storage() = 0;
  virtual std::string path() const = 0;
};

/// An implementation of Storage.
struct Engine {
  std::string name;
  std::unique_ptr<EngineUnderTest> (*make)();
};

/// All of them.
std::vector<const Engine*> Engines();

std::string EngineName(const testing::TestParamInfo<const Engine*>& info);

}  // namespace ps::checkpoint
