#include "ps/proto/job/tensor_treatment.h"

#include <fmt/core.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "ps/base/text.h"

namespace ps::proto {
namespace {

/// `*` in the pattern stands for any text.
bool Matches(std::string_view pattern, std::string_view name) {
  size_t star = std::string_view::npos;  // the last one so far
  size_t from = 0;                       // what that one stands for ends here at least
  size_t p = 0;
  size_t n = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      from = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++from;
    } else {
      return false;
    }
  }
  return std::ranges::all_of(pattern.substr(p), [](char c) { return c == '*'; });
}

bool Has(const ParameterGroup& group, const TensorSpec& tensor) {
  return std::ranges::any_of(
      group.match, [&](const std::string& pattern) { return Matches(pattern, tensor.name); });
}

Status NoSuchTensor(size_t group, const std::string& pattern, std::span<const TensorSpec> tensors) {
  std::vector<std::string_view> names;
  for (const TensorSpec& tensor : tensors) {
    names.emplace_back(tensor.name);
  }
  const std::string nearest = NearestName(pattern, names);
  return Status::InvalidArgument(fmt::format(
      "parameters[{}].match: the model has no tensor \"{}\"{}; psctl model lists the "
      "layers, whose names theirs begin with, and * stands for any text",
      group,
      Printable(Clip(pattern, 120)),
      nearest.empty() ? "" : fmt::format("; did you mean {}?", nearest)));
}

}  // namespace

TensorTreatment TreatmentOf(std::span<const ParameterGroup> groups, const TensorSpec& tensor) {
  const auto group =
      std::ranges::find_if(groups, [&](const ParameterGroup& g) { return Has(g, tensor); });
  if (group == groups.end()) {
    return {.has_weight_decay = tensor.has_weight_decay};
  }
  return {
      .lr_factor = group->lr_factor,
      .has_weight_decay = group->weight_decay == DecayUse::kAuto
                              ? tensor.has_weight_decay
                              : group->weight_decay == DecayUse::kOn,
      .is_frozen = group->frozen};
}

Status CheckGroups(std::span<const ParameterGroup> groups, std::span<const TensorSpec> tensors) {
  for (size_t i = 0; i < groups.size(); ++i) {
    for (const std::string& pattern : groups[i].match) {
      const bool is_there = std::ranges::any_of(
          tensors, [&](const TensorSpec& tensor) { return Matches(pattern, tensor.name); });
      if (!is_there) {
        return NoSuchTensor(i, pattern, tensors);
      }
    }
  }
  const bool is_any_trained = std::ranges::any_of(tensors, [&](const TensorSpec& tensor) {
    return tensor.rule == UpdateRule::kOptimizer && !TreatmentOf(groups, tensor).is_frozen;
  });
  return groups.empty() || is_any_trained
             ? Status::Ok()
             : Status::InvalidArgument(
                   "parameters: all tensors are frozen, and nothing is trained");
}

}  // namespace ps::proto
