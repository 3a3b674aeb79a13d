#pragma once

#include <fmt/core.h>

#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "ps/base/time.h"
#include "ps/proto/codec/codec.h"

// Verified tables and structs to values, by their lists of fields; the opposite of pack.h. Where
// there is a Check(Decoder&, const T&), every T that was read is given to it.

namespace ps::proto::codec {

/// Reads `parts` into `m`, which is as it was made.
template <typename W, typename M>
void Unpack(Decoder& d, const W& w, M& m, uint32_t parts = kEveryPart);

template <typename In, typename T>
void UnpackScalar(Decoder& d, In in, T& out, const char* field) {
  if constexpr (std::is_enum_v<In>) {
    static_assert(std::is_enum_v<T> && sizeof(T) == sizeof(In));
    if (in < In::MIN || in > In::MAX) {
      d.Fail(field, fmt::format("has unknown value {}", static_cast<int>(in)));
    } else {
      out = static_cast<T>(in);
    }
  } else if constexpr (std::is_same_v<T, std::optional<Duration>>) {
    if (in >= 0) {
      out = Duration(in);
    }
  } else {
    out = T(in);
  }
}

template <typename W, typename T>
void UnpackList(
    Decoder& d, const flatbuffers::Vector<Offset<W>>& in, T& out, const FieldRules& rules) {
  if (!d.Charge(in.size() * sizeof(Offset<W>), rules.name)) {
    return;
  }
  for (flatbuffers::uoffset_t i = 0; i < in.size() && d.ok(); ++i) {
    Unpack(d, *in.Get(i), out.emplace_back());
    if (!d.ok()) {
      d.MoveInto(fmt::format("{}[{}]", rules.name, i));
    }
  }
}

template <typename W, typename T>
void UnpackList(
    Decoder& d, const flatbuffers::Vector<const W*>& in, T& out, const FieldRules& rules) {
  if (!d.ChargeItems(in.Data(), in.size(), sizeof(W), alignof(W), rules.name)) {
    return;
  }
  const W* const items = reinterpret_cast<const W*>(in.Data());
  out.resize(in.size());
  d.Inside(rules.name, [&] {
    for (size_t i = 0; i < out.size(); ++i) {
      Unpack(d, items[i], out[i]);
    }
  });
}

template <typename Number, typename T>
void UnpackList(
    Decoder& d, const flatbuffers::Vector<Number>& in, T& out, const FieldRules& rules) {
  if (!d.ChargeItems(in.Data(), in.size(), sizeof(Number), alignof(Number), rules.name)) {
    return;
  }
  if constexpr (requires { out.reserve(0); }) {
    out.reserve(in.size());
  }
  for (const Number number : in) {
    out.insert(out.end(), typename T::value_type(number));
  }
}

/// A table or struct inside of a table.
template <typename W, typename T>
void UnpackPart(Decoder& d, const W* in, T& out, const FieldRules& rules) {
  if constexpr (requires { out.has_value(); }) {
    if (in != nullptr) {
      d.Inside(rules.name, [&] { Unpack(d, *in, out.emplace()); });
    }
  } else if (in != nullptr) {
    d.Inside(rules.name, [&] { Unpack(d, *in, out); });
  } else if (!rules.limits.may_lack) {
    d.Fail(rules.name, "is missing");
  }
}

template <typename In>
inline constexpr bool kIsList = false;
template <typename Item>
inline constexpr bool kIsList<const flatbuffers::Vector<Item>*> = true;

template <typename In, typename T>
void UnpackValue(Decoder& d, const In& in, T& out, const FieldRules& rules) {
  if constexpr (std::is_arithmetic_v<In> || std::is_enum_v<In>) {
    UnpackScalar(d, in, out, rules.name);
  } else if constexpr (std::is_class_v<In>) {
    d.Inside(rules.name, [&] { Unpack(d, in, out); });
  } else if constexpr (std::is_same_v<In, const flatbuffers::String*>) {
    out = d.Text(in, rules);
  } else if constexpr (kIsList<In>) {
    if (in != nullptr) {
      UnpackList(d, *in, out, rules);
    }
  } else {
    UnpackPart(d, in, out, rules);
  }
}

template <typename In, FieldName kName, typename T, FieldLimits kLimits>
void UnpackField(Decoder& d, const In& in, const FieldRef<kName, T, kLimits>& field) {
  if constexpr (IsFieldView<T>) {
    typename T::Items items{};
    UnpackValue(d, in, items, field.kRules);
    if (d.ok()) {
      if (const std::string why = field.value.Set(std::move(items)); !why.empty()) {
        d.Fail(field.kRules.name, why);
      }
    }
  } else {
    UnpackValue(d, in, field.value, field.kRules);
  }
}

template <typename W, typename F>
void UnpackFrom(Decoder& d, const W& w, const F& field, uint32_t parts) {
  constexpr size_t kNumber = FieldNumber<W>(F::kRules.name);
  static_assert(kNumber < W::Traits::fields_number, "the table has no such field");
  if ((F::kRules.limits.parts & parts) != 0) {
    UnpackField<FieldType<W, kNumber>>(d, FieldOf<W, kNumber>::Get(w), field);
  }
}

template <typename W, typename M>
void Unpack(Decoder& d, const W& w, M& m, uint32_t parts) {
  ListFields(m, [&](const auto&... fields) { (UnpackFrom(d, w, fields, parts), ...); });
  if constexpr (requires { Check(d, std::as_const(m)); }) {
    Check(d, std::as_const(m));
  }
}

}  // namespace ps::proto::codec
