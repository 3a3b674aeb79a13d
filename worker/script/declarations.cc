#include "worker/script/declarations.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "checkpoint/model/safetensors_header.h"
#include "ps/base/text.h"
#include "ps/proto/limits.h"

namespace ps::worker {
namespace {

using checkpoint::ElementType;

Status Odd(const std::string& name, std::string_view why) {
  return Status::InvalidArgument(fmt::format("tensor {}: {}", Printable(name), why));
}

/// Where the tensor of that name is; the number of all: nowhere.
template <typename Tensors>
size_t PlaceOf(const Tensors& tensors, const std::string& name) {
  const auto it =
      std::ranges::find_if(tensors, [&](const auto& tensor) { return tensor.name == name; });
  return static_cast<size_t>(it - tensors.begin());
}

template <typename Tensors>
bool Has(const Tensors& tensors, const std::string& name) {
  return PlaceOf(tensors, name) < tensors.size();
}

}  // namespace

Status Declarations::CheckName(const std::string& name) const {
  if (name.empty() || name.size() > proto::kNameBytesMax) {
    return Odd(name, "its name is empty or too long; allowed: 1 to 256 bytes");
  }
  if (Has(description.tensors, name) || Has(description.frozen, name) ||
      Has(description.kept, name) || description.aliases.contains(name)) {
    return Odd(name, "it is declared twice; tensors that are tied are one");
  }
  return Status::Ok();
}

Result<TensorSpec> Declarations::Read(
    const std::string& name, std::span<const int64_t> shape, int64_t size_min) const {
  PS_TRY(CheckName(name));
  if (shape.size() > proto::kTensorDimsMax) {
    return Odd(name, "it has too many dimensions; allowed: 0 to 8");
  }
  TensorSpec tensor;
  tensor.name = name;
  tensor.shape.assign(shape.begin(), shape.end());
  uint64_t elements = 1;
  for (const int64_t size : shape) {
    const auto divisor = static_cast<uint64_t>(std::max<int64_t>(size, 1));
    if (size < size_min || elements > proto::kTensorElementsMax / divisor) {
      return Odd(name, "it has no elements, or too many; leave out what is empty");
    }
    elements *= static_cast<uint64_t>(size);
  }
  return tensor;
}

Status Declarations::AddTrained(
    const std::string& name,
    std::span<const int64_t> shape,
    UpdateRule rule,
    float rate,
    bool has_weight_decay,
    const float* first_values) {
  PS_ASSIGN(TensorSpec tensor, Read(name, shape, 1));
  if (rule == UpdateRule::kAverage ? !(rate > 0 && rate <= 1) : rate != 0) {
    return Odd(name, "its rate doesn't fit its rule; allowed: above 0 to 1 for an average, else 0");
  }
  tensor.rule = rule;
  tensor.average_rate = rate;
  tensor.has_weight_decay = has_weight_decay;
  description.tensors.push_back(std::move(tensor));
  values.tensors.push_back(first_values);
  return Status::Ok();
}

Status Declarations::AddFrozen(
    const std::string& name, std::span<const int64_t> shape, const float* its_values) {
  PS_ASSIGN(TensorSpec tensor, Read(name, shape, 1));
  description.frozen.push_back(std::move(tensor));
  values.frozen.push_back(its_values);
  return Status::Ok();
}

Status Declarations::AddKept(
    const std::string& name,
    int32_t type,
    std::span<const int64_t> shape,
    bool is_counter,
    bool is_compared,
    const void* its_values) {
  PS_ASSIGN(TensorSpec tensor, Read(name, shape, 0));
  if (type < 0 || static_cast<size_t>(type) >= checkpoint::kElementTypes) {
    return Odd(name, "unknown type; allowed: SPOTPS_F64 to SPOTPS_BOOL");
  }
  description.kept.push_back(
      {std::move(tensor.name),
       static_cast<ElementType>(type),
       tensor.shape,
       is_counter,
       is_compared});
  values.kept.push_back(its_values);
  return Status::Ok();
}

Status Declarations::AddAlias(const std::string& name, const std::string& of) {
  PS_TRY(CheckName(name));
  if (Has(description.tensors, of)) {
    description.aliases.emplace(name, of);
  } else if (const size_t i = PlaceOf(description.frozen, of); i < description.frozen.size()) {
    description.kept.push_back({name, ElementType::kF32, description.frozen[i].shape});
    values.kept.push_back(values.frozen[i]);
  } else if (const size_t k = PlaceOf(description.kept, of); k < description.kept.size()) {
    KeptTensor tensor = description.kept[k];
    tensor.name = name;
    tensor.is_compared = false;  // its bytes are, by the other name
    description.kept.push_back(std::move(tensor));
    values.kept.push_back(values.kept[k]);
  } else {
    return Odd(name, fmt::format("{} isn't declared, of which it is another name", Printable(of)));
  }
  return Status::Ok();
}

}  // namespace ps::worker
