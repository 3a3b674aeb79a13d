#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "ps/base/ids.h"

// How the fields of a message, or of a part of the saved state, are listed: once, in the order of
// its table in the .fbs. Whoever packs, unpacks or prints asks for the list:
//
//   template <MaybeConst<Drain> M>
//   auto ListFields(M& m, auto&& list) {
//     return list(Text<"reason", kTextBytesMax>(m.reason), Field<"grace_ms">(m.grace_ms));
//   }
//
// A list whose names are not the table's, in its order, does not compile. Private to ps/proto.

namespace ps::proto {

/// A list serves readers and writers.
template <typename C, typename T>
concept MaybeConst = std::same_as<std::remove_const_t<C>, T>;

template <typename T>
inline constexpr bool kIsId = false;
template <typename Tag, typename Rep>
inline constexpr bool kIsId<Id<Tag, Rep>> = true;

/// The name of a field as a template's argument.
template <size_t n>
struct FieldName {
  char text[n];

  // NOLINTNEXTLINE(google-explicit-constructor): a string literal becomes one
  consteval FieldName(const char (&name)[n]) { std::copy_n(name, n, text); }
};

inline constexpr uint32_t kEveryPart = UINT32_MAX;

struct FieldLimits {
  size_t bytes_max = 0;         // of a text: a longer one is refused by who reads it
  bool is_cut = true;           // who writes a longer text cuts it off before
  size_t count_max = SIZE_MAX;  // items of a list that are written, the first ones
  bool may_lack = false;        // a part without which the message is read all the same
  uint32_t parts = kEveryPart;  // of a JobState: StatePart
};

struct FieldRules {
  const char* name;
  FieldLimits limits;
};

/// `T`: a reference to the member, or a view of it, which has a type Items, that is read, and
///   Get()       the items to write, as a range or a value
///   Set(items)  keeps what was read; says what is wrong with it, or nothing
template <FieldName kName, typename T, FieldLimits kLimits = FieldLimits()>
struct FieldRef {
  static constexpr FieldRules kRules = {kName.text, kLimits};

  T value;
};

template <FieldName kName, typename T>
constexpr FieldRef<kName, T&> Field(T& member) {
  static_assert(!std::is_same_v<std::remove_const_t<T>, std::string>, "a text has a limit");
  return {member};
}

/// At most so many bytes; a longer one is cut between two characters and ends in "...".
template <FieldName kName, size_t kBytesMax, typename T>
constexpr FieldRef<kName, T&, FieldLimits{.bytes_max = kBytesMax}> Text(T& member) {
  return {member};
}

/// A text of which a piece is no use.
template <FieldName kName, size_t kBytesMax, typename T>
constexpr FieldRef<kName, T&, FieldLimits{.bytes_max = kBytesMax, .is_cut = false}> WholeText(
    T& member) {
  return {member};
}

/// The first items of a list; the others are left out.
template <FieldName kName, size_t kCountMax, typename T>
constexpr FieldRef<kName, T&, FieldLimits{.count_max = kCountMax}> First(T& member) {
  return {member};
}

/// A part that is as it was made when the table lacks it.
template <FieldName kName, typename T>
constexpr FieldRef<kName, T&, FieldLimits{.may_lack = true}> Optional(T& member) {
  return {member};
}

}  // namespace ps::proto
