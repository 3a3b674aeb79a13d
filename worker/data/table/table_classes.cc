#include "worker/data/table/table_classes.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace ps::worker {
namespace {

/// A label as the number that it is, however it is written: 3, 3.0 and +3 are one.
std::optional<double> LabelNumber(const std::string& name) {
  const std::optional<double> number = NumberIn(name);
  return number && std::isfinite(*number) ? number : std::nullopt;
}

/// Labels that are numbers and no classes. `numbers` are the distinct ones of so many rows,
/// ascending: a fraction, or most rows with a number of their own.
bool AreMeasured(const std::vector<double>& numbers, uint64_t rows) {
  constexpr size_t kManyNumbers = 50;
  return std::ranges::any_of(numbers, [](double n) { return n != std::floor(n); }) ||
         (numbers.size() > kManyNumbers && 2 * numbers.size() > rows);
}

template <typename T>
std::optional<uint32_t> PlaceIn(const std::vector<T>& sorted, const T& wanted) {
  const auto found = std::ranges::lower_bound(sorted, wanted);
  return found != sorted.end() && *found == wanted
             ? std::optional(static_cast<uint32_t>(found - sorted.begin()))
             : std::nullopt;
}

}  // namespace

Result<TableClasses> TableClasses::Of(const TableRows& train) {
  TableClasses classes;
  std::vector<double> numbers;
  for (const std::string& name : train.label_names) {
    if (const std::optional<double> number = LabelNumber(name)) {
      numbers.push_back(*number);
    }
  }
  if (numbers.size() < train.label_names.size()) {
    classes.names_ = train.label_names;
    std::ranges::sort(classes.names_);
    classes.count_ = static_cast<double>(classes.names_.size());
  } else {
    std::ranges::sort(numbers);
    numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
    if (AreMeasured(numbers, train.count)) {
      return Status::Corruption(fmt::format(
          "{}the labels are numbers and no classes: {} different ones in {} rows, from {} to {}; "
          "to predict numbers (regression), end model.layers with the loss mse, mae or huber, "
          "behind a linear layer with an output for each; for classes, give them whole numbers "
          "or names",
          train.first_places.front(),
          numbers.size(),
          train.count,
          numbers.front(),
          numbers.back()));
    }
    const bool are_classes = std::ranges::all_of(
        numbers, [](double number) { return number >= 0 && number == std::floor(number); });
    classes.count_ = are_classes ? numbers.back() + 1 : static_cast<double>(numbers.size());
    classes.numbers_ = are_classes ? std::vector<double>() : std::move(numbers);
  }
  if (classes.count_ < 2 || classes.count_ > static_cast<double>(kTableClassesMax)) {
    return Status::Corruption(fmt::format(
        "{}the training labels make {:.0f} classes; allowed: 2 to {}, named or numbered from 0 "
        "(to predict numbers, end model.layers with the loss mse)",
        train.first_places.front(),
        classes.count_,
        kTableClassesMax));
  }
  return classes;
}

std::vector<std::string> TableClasses::Names() const {
  std::vector<std::string> names = names_;
  for (const double number : numbers_) {
    names.push_back(fmt::format("{}", number));
  }
  return names;
}

Status TableClasses::Number(TableRows* rows) const {
  std::vector<uint32_t> of_name;
  for (size_t i = 0; i < rows->label_names.size(); ++i) {
    const std::optional<uint32_t> own = Find(rows->label_names[i]);
    if (!own) {
      return Status::Corruption(fmt::format(
          "{}a label that no training row has, or beyond theirs; there are {} classes",
          rows->first_places[i],
          count()));
    }
    of_name.push_back(*own);
  }
  for (uint32_t& label : rows->labels) {
    label = of_name[label];
  }
  return Status::Ok();
}

std::optional<uint32_t> TableClasses::Find(const std::string& name) const {
  if (!names_.empty()) {
    return PlaceIn(names_, name);
  }
  const std::optional<double> number = LabelNumber(name);
  if (!number) {
    return std::nullopt;
  }
  if (!numbers_.empty()) {
    return PlaceIn(numbers_, *number);
  }
  const bool is_class = *number >= 0 && *number < count_ && *number == std::floor(*number);
  return is_class ? std::optional(static_cast<uint32_t>(*number)) : std::nullopt;
}

}  // namespace ps::worker
