#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <ranges>
#include <string>
#include <utility>
#include <vector>

#include "ps/base/range_set.h"
#include "ps/base/status.h"
#include "ps/proto/codec/field_list.h"

// Views in lists of fields (FieldRef), for members that have another form when they are saved.

namespace ps::proto {

/// Puts them where they belong; says which key is there twice.
template <typename Map, typename Key, typename Value>
std::string PutOnce(Map& map, const Key& key, Value&& value) {
  if (map.emplace(key, std::forward<Value>(value)).second) {
    return {};
  }
  if constexpr (kIsId<Key>) {
    return fmt::format("has {} twice", key.value);
  } else {
    return fmt::format("has {} twice", key);
  }
}

template <typename Map, typename KeyOf>
struct ValuesView {
  using Items = std::vector<typename Map::mapped_type>;
  Map& map;
  KeyOf key_of;

  auto Get() const { return std::views::values(map); }

  std::string Set(Items items) const {
    for (auto& item : items) {
      const auto key = key_of(item);
      if (std::string why = PutOnce(map, key, std::move(item)); !why.empty()) {
        return why;
      }
    }
    return {};
  }
};

/// A map as the list of its values, which have their keys in them.
template <FieldName kName, typename Map, typename KeyOf>
constexpr FieldRef<kName, ValuesView<Map, KeyOf>> Values(Map& map, KeyOf key_of) {
  return {{map, key_of}};
}

template <typename Entry, typename Map>
struct EntriesView {
  using Items = std::vector<Entry>;
  Map& map;

  auto Get() const {
    return std::views::transform(map, [](const auto& entry) {
      return Entry{entry.first, entry.second};
    });
  }

  std::string Set(Items items) const {
    for (auto& [key, value] : items) {
      if (std::string why = PutOnce(map, key, std::move(value)); !why.empty()) {
        return why;
      }
    }
    return {};
  }
};

/// A map as a list of `Entry`, a struct of key and value.
template <FieldName kName, typename Entry, typename Map>
constexpr FieldRef<kName, EntriesView<Entry, Map>> Entries(Map& map) {
  return {{map}};
}

/// A run of samples in a set of them.
struct SampleRange {
  uint64_t begin = 0;
  uint64_t end = 0;
};

template <MaybeConst<SampleRange> M>
auto ListFields(M& m, auto&& list) {
  return list(Field<"begin">(m.begin), Field<"end">(m.end));
}

template <typename Ranges>
struct RangesView {
  using Items = std::vector<SampleRange>;
  Ranges& ranges;

  auto Get() const {
    return std::views::transform(ranges.ranges(), [](const auto& range) {
      return SampleRange{range.first, range.second};
    });
  }

  std::string Set(const Items& items) const {
    for (size_t i = 0; i < items.size(); ++i) {
      if (items[i].begin >= items[i].end || (i > 0 && items[i].begin <= items[i - 1].end)) {
        return "are empty or not in order";
      }
      ranges.Insert(items[i].begin, items[i].end);
    }
    return {};
  }
};

/// A RangeSet as its ranges.
template <FieldName kName, typename Ranges>
constexpr FieldRef<kName, RangesView<Ranges>> RangesOf(Ranges& ranges) {
  return {{ranges}};
}

template <typename List, auto kMember>
struct ColumnView {
  using Items = std::vector<uint64_t>;
  List& list;

  auto Get() const { return std::views::transform(list, kMember); }

  std::string Set(const Items& items) const {
    for (size_t i = 0; i < std::min(items.size(), list.size()); ++i) {
      list[i].*kMember = items[i];
    }
    return {};
  }
};

/// One member of each item of a list that was read before, whose structs have no room for it.
template <FieldName kName, auto kMember, typename List>
constexpr FieldRef<kName, ColumnView<List, kMember>> Column(List& list) {
  return {{list}};
}

template <typename S>
struct CodeView {
  using Items = StatusCode;
  S& status;

  StatusCode Get() const { return status.code(); }

  std::string Set(StatusCode code) const {
    status = Status(code, "");
    return {};
  }
};

template <typename S>
struct MessageView {
  using Items = std::string;
  S& status;

  std::string Get() const { return std::string(status.message()); }

  std::string Set(std::string message) const {
    status = Status(status.code(), std::move(message));
    return {};
  }
};

/// A Status as two fields: its code, then its message.
template <FieldName kName, typename S>
constexpr FieldRef<kName, CodeView<S>> CodeOf(S& status) {
  return {{status}};
}

template <FieldName kName, size_t kBytesMax, typename S>
constexpr FieldRef<kName, MessageView<S>, FieldLimits{.bytes_max = kBytesMax}> MessageOf(
    S& status) {
  return {{status}};
}

template <uint32_t kValue>
struct ConstantView {
  using Items = uint32_t;

  uint32_t Get() const { return kValue; }

  std::string Set(uint32_t /*value*/) const { return {}; }
};

/// A number that no member has. Whoever reads it looks at it before.
template <FieldName kName, uint32_t kValue>
constexpr FieldRef<kName, ConstantView<kValue>> Constant() {
  return {{}};
}

}  // namespace ps::proto
