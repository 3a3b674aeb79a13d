#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "ps/base/status.h"
#include "ps/base/tensor_spec.h"
#include "worker/script/description.h"

namespace ps::worker {

/// What a program declares, tensor by tensor. Errors of each: kInvalidArgument naming the tensor,
/// and then nothing is declared. Values are not read. Thread: one at a time.
class Declarations {
 public:
  /// `rate`: of UpdateRule::kAverage, above 0 to 1, else 0.
  Status AddTrained(
      const std::string& name,
      std::span<const int64_t> shape,
      UpdateRule rule,
      float rate,
      bool has_weight_decay,
      const float* values);
  Status AddFrozen(const std::string& name, std::span<const int64_t> shape, const float* values);
  /// `type`: a number of checkpoint::ElementType.
  Status AddKept(
      const std::string& name,
      int32_t type,
      std::span<const int64_t> shape,
      bool is_counter,
      bool is_compared,
      const void* values);
  /// Another name of a tensor that is declared.
  Status AddAlias(const std::string& name, const std::string& of);

  Description description;
  DescribedValues values;

 private:
  Status CheckName(const std::string& name) const;
  Result<TensorSpec> Read(
      const std::string& name, std::span<const int64_t> shape, int64_t size_min) const;
};

}  // namespace ps::worker
