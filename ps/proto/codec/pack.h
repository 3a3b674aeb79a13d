#pragma once

#include <algorithm>
#include <chrono>
#include <iterator>
#include <optional>
#include <ranges>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "ps/base/time.h"
#include "ps/proto/codec/codec.h"

// Values to tables and structs, by their lists of fields. `W` is what flatc has made of a table or
// a struct, `In` what it reads a field as.

namespace ps::proto::codec {

/// Packs `parts` of the value: of others no table, list or text is written.
template <typename W, typename M>
Offset<W> Pack(Fbb& b, const M& m, uint32_t parts = kEveryPart);

template <typename In, typename T>
In PackScalar(const T& value) {
  if constexpr (std::is_enum_v<In>) {
    static_assert(std::is_enum_v<T> && sizeof(T) == sizeof(In));
    return static_cast<In>(value);
  } else if constexpr (std::is_same_v<T, Duration>) {
    static_assert(std::is_same_v<In, Duration::rep>);
    return value.count();
  } else if constexpr (std::is_same_v<T, std::optional<Duration>>) {
    return value ? PackScalar<In>(*value) : -1;
  } else if constexpr (kIsId<T>) {
    return PackScalar<In>(value.value);
  } else {
    static_assert(std::is_same_v<In, T>, "the member's type is not the field's");
    return value;
  }
}

template <typename W, typename M>
W PackStruct(const M& m) {
  return ListFields(m, []<typename... F>(F... fields) {
    static_assert(IsListOf<W, F...>(), "the list has other fields than the struct");
    return [&]<size_t... I>(std::index_sequence<I...>) {
      const auto pack = []<typename In, typename T>(std::type_identity<In>, const T& value) -> In {
        if constexpr (std::is_class_v<In>) {
          return PackStruct<In>(value);
        } else {
          return PackScalar<In>(value);
        }
      };
      return W(pack(std::type_identity<FieldType<W, I>>(), fields.value)...);
    }
    (std::make_index_sequence<sizeof...(F)>());
  });
}

/// A struct that its table takes by address, or nothing.
template <typename W>
struct StructArgument {
  std::optional<W> value;
};

template <typename T>
T AsArgument(const T& value) {
  return value;
}

template <typename W>
const W* AsArgument(const StructArgument<W>& value) {
  return value.value ? &*value.value : nullptr;
}

/// What of a field has to be in the buffer before its table is begun, or its number.
template <typename In>
struct Packer {
  template <typename T>
  static In Do(Fbb& /*b*/, const T& value, const FieldRules& /*rules*/) {
    return PackScalar<In>(value);
  }
};

template <>
struct Packer<const flatbuffers::String*> {
  static Offset<flatbuffers::String> Do(Fbb& b, const std::string& text, const FieldRules& rules) {
    return rules.limits.is_cut ? MakeText(b, text, rules.limits.bytes_max) : b.CreateString(text);
  }
};

template <IsTable W>
struct Packer<const W*> {
  template <typename T>
  static Offset<W> Do(Fbb& b, const T& value, const FieldRules& /*rules*/) {
    if constexpr (requires { value.has_value(); }) {
      return value ? Pack<W>(b, *value) : Offset<W>();
    } else {
      return Pack<W>(b, value);
    }
  }
};

template <typename W>
struct Packer<const W*> {
  template <typename T>
  static StructArgument<W> Do(Fbb& /*b*/, const T& value, const FieldRules& /*rules*/) {
    if constexpr (requires { value.has_value(); }) {
      return {value ? std::optional(PackStruct<W>(*value)) : std::nullopt};
    } else {
      return {PackStruct<W>(value)};
    }
  }
};

template <typename W>
struct Packer<const flatbuffers::Vector<Offset<W>>*> {
  template <typename Range>
  static auto Do(Fbb& b, const Range& items, const FieldRules& rules) {
    std::vector<Offset<W>> offsets;
    offsets.reserve(std::min<size_t>(std::ranges::size(items), rules.limits.count_max));
    for (const auto& item : items) {
      if (offsets.size() == rules.limits.count_max) {
        break;
      }
      offsets.push_back(Pack<W>(b, item));
    }
    return b.CreateVector(offsets);
  }
};

template <typename W>
struct Packer<const flatbuffers::Vector<const W*>*> {
  template <typename Range>
  static auto Do(Fbb& b, const Range& items, const FieldRules& /*rules*/) {
    auto item = std::ranges::begin(items);
    return b.CreateVectorOfStructs<W>(
        std::ranges::size(items), [&](size_t /*i*/, W* out) { *out = PackStruct<W>(*item++); });
  }
};

template <typename Number>
struct Packer<const flatbuffers::Vector<Number>*> {
  template <typename Range>
  static auto Do(Fbb& b, const Range& items, const FieldRules& /*rules*/) {
    Number* out = nullptr;
    const auto offset = b.CreateUninitializedVector(std::ranges::size(items), &out);
    std::ranges::transform(items, out, [](const auto& item) { return PackScalar<Number>(item); });
    return Offset<flatbuffers::Vector<Number>>(offset);
  }
};

template <typename In, FieldName kName, typename T, FieldLimits kLimits>
auto PackField(Fbb& b, const FieldRef<kName, T, kLimits>& field, uint32_t parts) {
  if constexpr (IsFieldView<T>) {
    using Items = decltype(field.value.Get());
    return PackField<In>(b, FieldRef<kName, Items, kLimits>{field.value.Get()}, parts);
  } else {
    if constexpr (std::is_pointer_v<In> && kLimits.parts != kEveryPart) {
      if ((kLimits.parts & parts) == 0) {
        return decltype(Packer<In>::Do(b, field.value, field.kRules))();
      }
    }
    return Packer<In>::Do(b, field.value, field.kRules);
  }
}

template <typename W, typename M>
Offset<W> Pack(Fbb& b, const M& m, uint32_t parts) {
  return ListFields(m, [&]<typename... F>(F... fields) {
    static_assert(IsListOf<W, F...>(), "the list has other fields than the table");
    return [&]<size_t... I>(std::index_sequence<I...>) {
      // Braces are evaluated from left to right, so that the bytes are the same every time.
      const std::tuple<decltype(PackField<FieldType<W, I>>(b, fields, parts))...> packed{
          PackField<FieldType<W, I>>(b, fields, parts)...};
      return W::Traits::Create(b, AsArgument(std::get<I>(packed))...);
    }
    (std::make_index_sequence<sizeof...(F)>());
  });
}

}  // namespace ps::proto::codec
