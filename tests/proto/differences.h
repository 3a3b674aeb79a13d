#pragma once

#include <fmt/core.h>

#include <ranges>
#include <string>
#include <type_traits>

#include "ps/proto/codec/field_list.h"

namespace ps::tests {

template <typename T>
std::string FirstDifference(const T& a, const T& b);

template <typename Range>
std::string FirstDifferenceOfItems(const Range& a, const Range& b) {
  if (std::ranges::size(a) != std::ranges::size(b)) {
    return fmt::format(": {} items, not {}", std::ranges::size(a), std::ranges::size(b));
  }
  auto other = std::ranges::begin(b);
  size_t place = 0;
  for (const auto& item : a) {
    const std::string difference = FirstDifference(item, *other++);
    if (!difference.empty()) {
      return fmt::format("[{}]{}", place, difference);
    }
    ++place;
  }
  return {};
}

/// Where two messages, or parts of the saved state, differ, by their lists of fields:
/// ".tensors[1].shape[0]: 3, not 4". Empty where they are the same. A member that no list has is
/// not looked at; Same does.
template <typename T>
std::string FirstDifference(const T& a, const T& b) {
  if constexpr (requires { a.has_value(); }) {
    if (a.has_value() != b.has_value()) {
      return a ? ": is there" : ": is not there";
    }
    return a ? FirstDifference(*a, *b) : "";
  } else if constexpr (proto::kIsId<T>) {
    return FirstDifference(a.value, b.value);
  } else if constexpr (requires { a.count(); }) {
    return FirstDifference(a.count(), b.count());
  } else if constexpr (std::is_enum_v<T>) {
    return FirstDifference(static_cast<int>(a), static_cast<int>(b));
  } else if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
    return a == b || (a != a && b != b) ? "" : fmt::format(": {}, not {}", a, b);
  } else if constexpr (std::ranges::range<T>) {
    return FirstDifferenceOfItems(a, b);
  } else {
    std::string first;
    ListFields(a, [&](const auto&... left) {
      ListFields(b, [&](const auto&... right) {
        const auto compare = [&first](const auto& x, const auto& y) {
          std::string difference;
          if constexpr (requires { x.value.Get(); }) {
            difference = FirstDifference(x.value.Get(), y.value.Get());
          } else {
            difference = FirstDifference(x.value, y.value);
          }
          if (first.empty() && !difference.empty()) {
            first = fmt::format(".{}{}", x.kRules.name, difference);
          }
        };
        (compare(left, right), ...);
      });
    });
    return first;
  }
}

}  // namespace ps::tests
