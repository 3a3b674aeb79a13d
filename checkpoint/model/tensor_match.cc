#include "checkpoint/model/tensor_match.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <compare>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "ps/base/text.h"

namespace ps::checkpoint {
namespace {

constexpr size_t kListedMax = 12;  // rows of an error

std::vector<std::string_view> PartsOf(std::string_view name) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t point = name.find('.');
    parts.push_back(name.substr(0, point));
    if (point == std::string_view::npos) {
      return parts;
    }
    name.remove_prefix(point + 1);
  }
}

std::optional<uint64_t> NumberOf(std::string_view part) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), number);
  return error == std::errc() && end == part.data() + part.size() ? std::optional(number)
                                                                  : std::nullopt;
}

std::string_view LayerOf(std::string_view name) {
  const size_t point = name.rfind('.');
  return point == std::string_view::npos ? "" : name.substr(0, point);
}

std::string_view WhatOf(std::string_view name) {
  return name.substr(name.rfind('.') + 1);
}

/// As torch.nn.Module calls it.
std::string_view TorchWhat(std::string_view what) {
  return what == "gamma"              ? "weight"
         : what == "beta"             ? "bias"
         : what == "running_variance" ? "running_var"
                                      : what;
}

/// Numbered layers in their order. Nothing where the order of two is not told by their numbers.
struct LayerOrder {
  bool operator()(std::string_view a, std::string_view b) const {
    const std::vector<std::string_view> left = PartsOf(a);
    const std::vector<std::string_view> right = PartsOf(b);
    for (size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
      if (left[i] != right[i]) {
        const auto numbers = std::pair(NumberOf(left[i]), NumberOf(right[i]));
        return numbers.first && numbers.second ? *numbers.first < *numbers.second
                                               : left[i] < right[i];
      }
    }
    return left.size() < right.size();
  }

  static bool IsTold(std::string_view a, std::string_view b) {
    const std::vector<std::string_view> left = PartsOf(a);
    const std::vector<std::string_view> right = PartsOf(b);
    for (size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
      if (left[i] != right[i]) {
        return NumberOf(left[i]) && NumberOf(right[i]);
      }
    }
    return false;
  }
};

/// By what each is called in its layer.
template <typename Tensor>
using TensorsOfLayer = std::map<std::string, Tensor, std::less<>>;

class Matcher {
 public:
  Matcher(const SafetensorsHeader& header, std::span<const TensorSpec> tensors)
      : tensors_(tensors) {
    for (const StoredTensor& tensor : header.tensors) {
      if (IsFloat(tensor.type)) {
        stored_.emplace(tensor.name, &tensor);
      }
    }
  }

  TensorMatch ByName(MatchKind kind) const {
    std::vector<const StoredTensor*> found;
    for (const TensorSpec& spec : tensors_) {
      const auto it = stored_.find(kind == MatchKind::kName ? spec.name : TorchName(spec.name));
      found.push_back(it == stored_.end() ? nullptr : it->second);
    }
    return Checked(kind, std::move(found));
  }

  std::optional<TensorMatch> ByOrder() const {
    std::map<std::string_view, TensorsOfLayer<const StoredTensor*>, LayerOrder> theirs;
    for (const auto& [name, tensor] : stored_) {
      theirs[LayerOf(name)][std::string(TorchWhat(WhatOf(name)))] = tensor;
    }
    std::vector<TensorsOfLayer<size_t>> ours;
    std::string layer;
    for (size_t i = 0; i < tensors_.size(); ++i) {
      if (i == 0 || LayerOf(tensors_[i].name) != layer) {
        ours.emplace_back();
        layer = LayerOf(tensors_[i].name);
      }
      ours.back()[std::string(TorchWhat(WhatOf(tensors_[i].name)))] = i;
    }
    if (ours.size() != theirs.size()) {
      return std::nullopt;
    }
    std::vector<const StoredTensor*> found(tensors_.size());
    std::string_view before;
    auto mine = ours.begin();
    for (const auto& [name, layer_tensors] : theirs) {
      const bool is_told = mine == ours.begin() || LayerOrder::IsTold(before, name);
      before = name;
      const auto is_same = [](const auto& a, const auto& b) { return a.first == b.first; };
      if (!is_told || !std::ranges::equal(*mine, layer_tensors, is_same)) {
        return std::nullopt;
      }
      for (const auto& [what, tensor] : layer_tensors) {
        found[mine->at(what)] = tensor;
      }
      ++mine;
    }
    return Checked(MatchKind::kOrder, std::move(found));
  }

  /// Names and shapes of both, side by side.
  std::string BothText() const {
    std::vector<std::pair<std::string, std::string>> rows;
    for (const TensorSpec& spec : tensors_) {
      rows.emplace_back(spec.name + " " + ShapeText(spec.shape), "");
    }
    rows.resize(std::max(rows.size(), stored_.size()));
    std::vector<std::string_view> names;
    for (const auto& [name, tensor] : stored_) {
      names.push_back(name);
    }
    std::ranges::sort(names, LayerOrder());
    for (size_t i = 0; i < names.size(); ++i) {
      rows[i].second = Clip(Printable(names[i]), 80) + " " +
                       Clip(ShapeText(stored_.at(std::string(names[i]))->shape), 80);
    }
    std::string text = fmt::format("\n  {:<44}{}", "the model", "the file");
    for (size_t i = 0; i < std::min(rows.size(), kListedMax); ++i) {
      text += fmt::format("\n  {:<44}{}", rows[i].first, rows[i].second);
    }
    return rows.size() <= kListedMax
               ? text
               : text + fmt::format("\n  and {} more lines", rows.size() - kListedMax);
  }

 private:
  TensorMatch Checked(MatchKind kind, std::vector<const StoredTensor*> found) const {
    TensorMatch match;
    match.kind = kind;
    std::map<std::string_view, const StoredTensor*> rest(stored_.begin(), stored_.end());
    for (size_t i = 0; i < found.size(); ++i) {
      if (found[i] != nullptr) {
        rest.erase(found[i]->name);
      }
      if (found[i] != nullptr && found[i]->shape != tensors_[i].shape) {
        match.misfits.push_back(fmt::format(
            "its tensor \"{}\" has shape {}, the model's has {}",
            Clip(Printable(found[i]->name), 120),
            Clip(ShapeText(found[i]->shape), 80),
            ShapeText(tensors_[i].shape)));
        found[i] = nullptr;
      }
    }
    for (const auto& [name, tensor] : rest) {
      match.unused.push_back(tensor);
    }
    match.stored = std::move(found);
    return match;
  }

  const std::span<const TensorSpec> tensors_;
  std::map<std::string, const StoredTensor*> stored_;  // the floats
};

size_t TakenOf(const TensorMatch& match) {
  return match.stored.size() - static_cast<size_t>(std::ranges::count(match.stored, nullptr));
}

/// What keeps the two from being one model. Errors: kInvalidArgument.
Status CheckAll(const TensorMatch& match, std::span<const TensorSpec> tensors) {
  if (!match.misfits.empty()) {
    return Status::InvalidArgument(match.misfits.front());
  }
  const auto missing = std::ranges::find(match.stored, nullptr);
  if (missing != match.stored.end()) {
    const TensorSpec& spec = tensors[static_cast<size_t>(missing - match.stored.begin())];
    return Status::InvalidArgument(fmt::format(
        "it has no tensor \"{}\", which the model has with shape {}",
        Printable(match.kind == MatchKind::kTorchName ? TorchName(spec.name) : spec.name),
        ShapeText(spec.shape)));
  }
  if (!match.unused.empty()) {
    return Status::InvalidArgument(fmt::format(
        "it has a tensor \"{}\" that the model does not have{}",
        Clip(Printable(match.unused.front()->name), 120),
        match.unused.size() == 1 ? ""
                                 : fmt::format(", and {} more such", match.unused.size() - 1)));
  }
  return Status::Ok();
}

}  // namespace

std::string TorchName(std::string_view name) {
  std::string torch;
  const std::vector<std::string_view> parts = PartsOf(name);
  for (size_t i = 0; i < parts.size(); ++i) {
    const bool is_kind = i > 0 && i + 1 < parts.size() && NumberOf(parts[i - 1]).has_value();
    if (!is_kind) {
      torch.append(torch.empty() ? "" : ".").append(parts[i]);
    }
  }
  const std::string_view what = WhatOf(torch);
  const std::string_view theirs = TorchWhat(what);
  return what == theirs ? torch : torch.substr(0, torch.size() - what.size()).append(theirs);
}

Result<TensorMatch> MatchTensors(
    const SafetensorsHeader& header, std::span<const TensorSpec> tensors, TakeRule rule) {
  const Matcher matcher(header, tensors);
  TensorMatch match = matcher.ByName(MatchKind::kName);
  const auto found = [](const TensorMatch& m) { return TakenOf(m) + m.misfits.size(); };
  if (TensorMatch torch = matcher.ByName(MatchKind::kTorchName); found(torch) > found(match)) {
    match = std::move(torch);
  }
  // Names that are those of other layers, as where the file's model has one more between two.
  const auto is_whole = [](const TensorMatch& m) {
    return TakenOf(m) == m.stored.size() && m.unused.empty();
  };
  if (!is_whole(match)) {
    if (std::optional<TensorMatch> ordered = matcher.ByOrder();
        ordered && (found(match) == 0 || is_whole(*ordered))) {
      match = std::move(*ordered);
    }
  }
  if (TakenOf(match) == 0 && !tensors.empty() && match.misfits.empty()) {
    return Status::InvalidArgument(
        "none of its tensors is one of the model's by name, and their names tell no order by which "
        "they are:" +
        matcher.BothText());
  }
  if (rule == TakeRule::kAll) {
    PS_TRY(CheckAll(match, tensors));
  } else if (TakenOf(match) == 0) {
    return Status::InvalidArgument("no tensor of it fits:" + matcher.BothText());
  }
  return match;
}

}  // namespace ps::checkpoint
