#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ps/coordinator/state/model_files.h"
#include "tests/sim/scenario.h"

namespace ps::sim {

/// The file that a run begins from.
class SimulatedSource final : public coordinator::ModelSource {
 public:
  explicit SimulatedSource(const Scenario* scenario) : scenario_(scenario) {}

  Status Read(uint32_t tensor, int64_t begin, std::span<float> out) override {
    for (size_t i = 0; i < out.size(); ++i) {
      out[i] = SimulatedValue(*scenario_, tensor, begin + static_cast<int64_t>(i));
    }
    return Status::Ok();
  }

 private:
  const Scenario* const scenario_;
};

/// The file that a run ends with. It takes a while to become durable.
class SimulatedSink final : public coordinator::ModelSink {
 public:
  explicit SimulatedSink(const Scenario& scenario) : specs_(SimulatedTensors(scenario)) {}

  Status Begin(std::map<std::string, std::string> /*metadata*/) override {
    tensors_.clear();
    writes_.clear();
    for (const TensorSpec& spec : specs_) {
      tensors_.emplace_back(spec.element_count());
      writes_.emplace_back(spec.element_count());
    }
    polls_ = 0;
    return Status::Ok();
  }

  Status Write(uint32_t tensor, int64_t begin, std::span<const float> values) override {
    for (const float value : values) {
      tensors_.at(tensor).at(static_cast<size_t>(begin)) = value;
      ++writes_.at(tensor).at(static_cast<size_t>(begin++));
    }
    return Status::Ok();
  }

  void Finish() override {}

  std::optional<Status> Outcome() override {
    constexpr int kPolls = 3;
    return ++polls_ < kPolls ? std::optional<Status>() : Status::Ok();
  }

  void Abandon() override {}

  std::string path() const override { return "model"; }

  /// Every element was written, and once.
  bool IsWhole() const {
    for (const std::vector<int>& writes : writes_) {
      for (const int count : writes) {
        if (count != 1) {
          return false;
        }
      }
    }
    return !writes_.empty();
  }

  /// Values by tensor.
  const std::vector<std::vector<float>>& tensors() const { return tensors_; }

 private:
  const std::vector<TensorSpec> specs_;
  std::vector<std::vector<float>> tensors_;
  std::vector<std::vector<int>> writes_;  // how often each element was written
  int polls_ = 0;
};

}  // namespace ps::sim
