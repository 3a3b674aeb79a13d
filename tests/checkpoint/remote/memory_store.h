#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "ps/store/object_store.h"

namespace ps::checkpoint {

/// Objects in memory, for tests: fails and forgets as it is told.
class MemoryStore final : public store::ObjectStore {
 public:
  std::string name() const override { return "memory"; }

  Status Put(std::string_view key, std::span<const std::byte> bytes) override;
  Result<std::vector<std::byte>> Get(std::string_view key, size_t bytes_max) override;
  Result<std::vector<store::ObjectInfo>> List(std::string_view prefix) override;
  Status Delete(std::string_view key) override;

  /// After so many more calls all fail with kUnavailable; a Put that fails so has written or not,
  /// by turns.
  void FailAfter(int calls) { calls_left_ = calls; }

  void Heal() { calls_left_ = -1; }

  /// Told before each Put and Delete.
  void OnChange(std::function<void(std::string_view key)> told) { on_change_ = std::move(told); }

  std::map<std::string, std::vector<std::byte>>& objects() { return objects_; }

  int calls() const { return calls_; }

  int puts() const { return puts_; }

 private:
  Status Call(std::string_view key);

  std::map<std::string, std::vector<std::byte>> objects_;
  std::function<void(std::string_view)> on_change_;
  int calls_ = 0;
  int puts_ = 0;
  int calls_left_ = -1;  // negative: no end
};

}  // namespace ps::checkpoint
