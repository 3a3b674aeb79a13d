#pragma once

#include <charconv>
#include <string>
#include <type_traits>
#include <vector>

#include "ps/base/check.h"
#include "ps/json/json_value.h"
#include "ps/json/json_writer.h"
#include "ps/proto/codec/field_list.h"
#include "ps/proto/files/file_schema.h"

// A tree that has passed CheckSchema to plain values, and values to text. A struct takes part when
// it has a VisitFields(value, visit) that calls visit(name, member) for each field; types and
// defaults come from the schema. Private to ps/proto.

namespace ps::proto {

template <typename T>
concept TableValue = requires(T& value) {
  VisitFields(value, [](const char*, auto&) {});
};

template <typename T>
struct IsVector : std::false_type {};

template <typename T>
struct IsVector<std::vector<T>> : std::true_type {};

class ValueReader {
 public:
  explicit ValueReader(const Schema& schema) : schema_(schema) {}

  /// Every field that `value` lacks gets its default; all of them when it is null.
  template <TableValue T>
  void Table(const JsonValue* value, const reflection::Object& table, T& out) const {
    size_t visited = 0;
    VisitFields(out, [&]<typename M>(const char* name, M& member) {
      ++visited;
      const reflection::Field& field = FieldNamed(table, name);
      const JsonValue* child = value == nullptr ? nullptr : value->Find(name);
      if constexpr (IsVector<M>::value) {
        member.clear();
        if (child != nullptr) {
          for (const JsonValue& item : child->children) {
            One(&item, field, member.emplace_back());
          }
        }
      } else {
        One(child, field, member);
      }
    });
    PS_CHECK(visited == table.fields()->size())
        << "VisitFields lacks a field of " << table.name()->string_view();
  }

  /// One value, or its default where `value` is null.
  template <typename T>
  void One(const JsonValue* value, const reflection::Field& field, T& out) const {
    if constexpr (TableValue<T>) {
      Table(value, TableOf(schema_, field), out);
    } else if constexpr (std::is_same_v<T, std::string>) {
      out = value != nullptr ? value->text : Attribute(field, "text");
    } else if constexpr (std::is_same_v<T, bool>) {
      out = value != nullptr ? value->text == "true" : field.default_integer() != 0;
    } else if constexpr (std::is_enum_v<T>) {
      out = static_cast<T>(
          value != nullptr ? *EnumValue(*EnumOf(schema_, field), value->text)
                           : field.default_integer());
    } else if constexpr (std::is_floating_point_v<T>) {
      out = value != nullptr ? Number<T>(value->text) : static_cast<T>(field.default_real());
    } else {
      out = value != nullptr ? Number<T>(value->text) : static_cast<T>(field.default_integer());
    }
  }

 private:
  template <typename T>
  static T Number(std::string_view text) {
    T number{};
    std::from_chars(text.data(), text.data() + text.size(), number);
    return number;
  }

  const Schema& schema_;
};

class ValueWriter {
 public:
  explicit ValueWriter(const Schema& schema) : schema_(schema) {}

  /// Everything, so that the reader sees what is in force; but items of lists only with what has to
  /// be said or is special about them.
  template <TableValue T>
  void Table(const T& value, const reflection::Object& table, bool is_item) {
    json_.BeginObject();
    VisitFields(value, [&]<typename M>(const char* name, const M& member) {
      const reflection::Field& field = FieldNamed(table, name);
      if constexpr (std::is_same_v<M, std::string>) {
        if (member.empty()) {
          return;
        }
      }
      if (is_item && !std::is_enum_v<M> && !IsRequired(field) && IsDefault(member, field)) {
        return;
      }
      json_.Key(name);
      if constexpr (IsVector<M>::value) {
        json_.BeginList();
        for (const auto& item : member) {
          One(item, field, true);
        }
        json_.EndList();
      } else {
        One(member, field, is_item);
      }
    });
    json_.EndObject();
  }

  std::string Take() && { return std::move(json_).Take(); }

 private:
  template <typename T>
  void One(const T& value, const reflection::Field& field, bool is_item) {
    if constexpr (TableValue<T>) {
      Table(value, TableOf(schema_, field), is_item);
    } else if constexpr (std::is_enum_v<T>) {
      json_.Value(EnumName(*EnumOf(schema_, field), static_cast<int64_t>(value)));
    } else if (const auto word = Attribute(field, "zero"); !word.empty() && IsZero(value)) {
      json_.Value(word);
    } else {
      json_.Value(value);
    }
  }

  template <typename T>
  static bool IsZero(const T& value) {
    if constexpr (std::is_arithmetic_v<T>) {
      return value == T{};
    } else {
      return false;
    }
  }

  template <typename M>
  bool IsDefault(const M& member, const reflection::Field& field) const {
    if constexpr (IsVector<M>::value) {
      return member.empty();
    } else {
      M otherwise;
      ValueReader(schema_).One(nullptr, field, otherwise);
      return member == otherwise;
    }
  }

  const Schema& schema_;
  JsonWriter json_;
};

/// Requires: `root` has passed CheckSchema.
template <TableValue T>
T ReadValues(const JsonValue& root, const Schema& schema) {
  T out;
  ValueReader(schema).Table(&root, *schema.root_table(), out);
  return out;
}

/// JSON that is read back as the same values.
template <TableValue T>
std::string PrintValues(const T& value, const Schema& schema) {
  ValueWriter writer(schema);
  writer.Table(value, *schema.root_table(), false);
  return std::move(writer).Take();
}

}  // namespace ps::proto
