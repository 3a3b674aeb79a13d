#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace ps::worker {

/// Values in memory or in a mapped file, which it keeps. Copies share them. Thread: any.
template <typename T>
class SharedArray {
 public:
  SharedArray() = default;

  explicit SharedArray(std::vector<T> values) {
    auto kept = std::make_shared<const std::vector<T>>(std::move(values));
    values_ = *kept;
    keeper_ = std::move(kept);
  }

  /// `keeper` has the values.
  SharedArray(std::shared_ptr<const void> keeper, std::span<const T> values)
      : keeper_(std::move(keeper)), values_(values) {}

  std::span<const T> values() const { return values_; }

  size_t size() const { return values_.size(); }

 private:
  std::shared_ptr<const void> keeper_;
  std::span<const T> values_;
};

}  // namespace ps::worker
