#include "ps/proto/files/file_check.h"

#include <fmt/core.h>

#include <charconv>
#include <regex>

#include "ps/base/text.h"

namespace ps::proto {
namespace {

using reflection::BaseType;
using Kind = JsonValue::Kind;

constexpr size_t kFileTextBytesMax = 4096;
constexpr size_t kListItemsMax = 1000;
/// The one name that is not in the schema: editors look there for it.
constexpr std::string_view kSchemaKey = "$schema";

/// "train.epochs" for a field called "epochs" with this dotted name in its tables.
std::optional<std::string> FindElsewhere(
    const Schema& schema,
    const reflection::Object& table,
    std::string_view name,
    const std::string& prefix) {
  for (const reflection::Field* field : FieldsOf(table)) {
    std::string path = prefix + field->name()->str();
    if (field->name()->string_view() == name) {
      return path;
    }
    if (IsTable(*field) && &TableOf(schema, *field) != &table) {
      const auto found = FindElsewhere(
          schema, TableOf(schema, *field), name, path + (IsList(*field) ? "[0]." : "."));
      if (found) {
        return found;
      }
    }
  }
  return std::nullopt;
}

class Checker {
 public:
  Checker(const Schema& schema, const std::string& file, const JsonValue& root)
      : schema_(schema), file_(file), root_(root) {}

  Status Table(JsonValue& value, const reflection::Object& table, const std::string& path) {
    if (value.kind != Kind::kObject) {
      return WrongKind(value, path, "an object in braces");
    }
    const std::string prefix = path.empty() ? "" : path + ".";
    for (JsonValue& child : value.children) {
      const reflection::Field* field = table.fields()->LookupByKey(child.key.c_str());
      if (field != nullptr) {
        PS_TRY(Field(child, *field, prefix + child.key));
      } else if (!path.empty() || child.key != kSchemaKey) {
        return Unknown(child, table, path);
      } else if (child.kind != Kind::kText) {
        return WrongKind(child, child.key, "a text");
      }
    }
    for (const reflection::Field* field : FieldsOf(table)) {
      if (IsRequired(*field) && !IsExcused(*field) &&
          value.Find(field->name()->string_view()) == nullptr) {
        return Error(
            value.place,
            prefix + field->name()->str() + " is missing; allowed: " + AllowedFor(schema_, *field));
      }
    }
    return KindFits(value, table, prefix);
  }

 private:
  /// Another field is given in the place of this one.
  bool IsExcused(const reflection::Field& field) const {
    const std::string_view other = Attribute(field, "unless");
    const JsonValue* const given = other.empty() ? nullptr : root_.At(other);
    return given != nullptr && (given->kind != Kind::kList || !given->children.empty());
  }

  Status Error(Place place, const std::string& what) const { return ErrorAt(file_, place, what); }

  Status WrongKind(const JsonValue& value, const std::string& path, const std::string& allowed) {
    return Error(
        value.place,
        (path.empty() ? "the document" : path) + " is " + std::string(KindName(value.kind)) +
            "; allowed: " + allowed);
  }

  Status Unknown(const JsonValue& child, const reflection::Object& table, const std::string& path) {
    std::vector<std::string_view> names;
    std::string hint;
    for (const reflection::Field* field : FieldsOf(table)) {
      names.push_back(field->name()->string_view());
      for (const std::string_view alias : AttributeWords(*field, "also")) {
        if (alias == child.key) {
          hint = "; did you mean \"" + field->name()->str() + "\"?";
        }
      }
    }
    if (hint.empty()) {
      hint = DidYouMean(child.key, names);
    }
    if (hint.empty()) {
      const auto elsewhere = FindElsewhere(schema_, *schema_.root_table(), child.key, "");
      if (elsewhere && *elsewhere == child.key) {  // it would name itself
        hint = "; a field of this name is at the top level, not in " + path;
      } else if (elsewhere) {
        hint = "; did you mean \"" + *elsewhere + "\"?";
      }
    }
    return Error(
        child.key_place,
        "unknown field " + Quoted(child.key) + (path.empty() ? "" : " in " + path) +
            "; allowed: " + Join(names) + hint);
  }

  Status Field(JsonValue& value, const reflection::Field& field, const std::string& path) {
    if (!IsList(field)) {
      return One(value, field, path);
    }
    if (value.kind != Kind::kList) {
      return WrongKind(value, path, AllowedFor(schema_, field) + ", in brackets");
    }
    const auto bound = [&](const char* name, size_t otherwise) {
      const std::string_view text = Attribute(field, name);
      std::from_chars(text.data(), text.data() + text.size(), otherwise);
      return otherwise;
    };
    const size_t items_min = bound("min_items", 0);
    const size_t items_max = bound("max_items", kListItemsMax);
    if (value.children.size() < items_min || value.children.size() > items_max) {
      return Error(
          value.place,
          fmt::format(
              "{} has {} entries; allowed: {} to {}",
              path,
              value.children.size(),
              items_min,
              items_max));
    }
    for (size_t i = 0; i < value.children.size(); ++i) {
      PS_TRY(One(value.children[i], field, fmt::format("{}[{}]", path, i)));
    }
    return Status::Ok();
  }

  Status One(JsonValue& value, const reflection::Field& field, const std::string& path) {
    if (IsTable(field)) {
      return Table(value, TableOf(schema_, field), path);
    }
    if (const reflection::Enum* values = EnumOf(schema_, field)) {
      return Name(value, EnumNames(*values), path);
    }
    switch (TypeOf(field)) {
      case BaseType::String:
        return Text(value, field, path);
      case BaseType::Bool:
        return value.kind == Kind::kBool ? Status::Ok()
                                         : WrongKind(value, path, AllowedFor(schema_, field));
      default:
        return Number(value, field, path);
    }
  }

  Status Name(
      const JsonValue& value, const std::vector<std::string_view>& names, const std::string& path) {
    const std::string allowed = "one of " + Join(names);
    if (value.kind != Kind::kText) {
      return WrongKind(value, path, allowed);
    }
    if (std::ranges::find(names, value.text) != names.end()) {
      return Status::Ok();
    }
    return Error(
        value.place,
        path + " is " + Quoted(value.text) + "; allowed: " + allowed +
            DidYouMean(value.text, names));
  }

  Status Text(JsonValue& value, const reflection::Field& field, const std::string& path) {
    const bool is_scalar = value.kind == Kind::kNumber || value.kind == Kind::kBool;
    if (value.place.is_override && is_scalar) {
      value.kind = Kind::kText;
    }
    if (value.kind != Kind::kText) {
      return WrongKind(value, path, AllowedFor(schema_, field) + ", in double quotes");
    }
    if (value.text.empty() || value.text.size() > kFileTextBytesMax) {
      return Error(
          value.place,
          fmt::format(
              "{} has {} bytes; allowed: 1 to {}", path, value.text.size(), kFileTextBytesMax));
    }
    if (const auto names = AttributeWords(field, "names"); !names.empty()) {
      return Name(value, names, path);
    }
    const std::string pattern(Attribute(field, "pattern"));
    // The regular-expression matcher recurses once a character.
    constexpr size_t kMatchedBytesMax = 256;
    if (!pattern.empty() && (value.text.size() > kMatchedBytesMax ||
                             !std::regex_match(value.text, std::regex(pattern)))) {
      return Error(
          value.place,
          path + " is " + Quoted(value.text) + "; allowed: " + AllowedFor(schema_, field));
    }
    return Status::Ok();
  }

  Status Number(JsonValue& value, const reflection::Field& field, const std::string& path) {
    if (const auto word = Attribute(field, "zero");
        value.kind == Kind::kText && !word.empty() && value.text == word) {
      value.kind = Kind::kNumber;
      value.text = "0";
      return Status::Ok();
    }
    if (value.kind != Kind::kNumber) {
      return WrongKind(value, path, AllowedFor(schema_, field));
    }
    const char* begin = value.text.data();
    const char* end = begin + value.text.size();
    double number = 0;
    bool fits = std::from_chars(begin, end, number).ec == std::errc();
    if (TypeOf(field) == BaseType::Float) {
      float narrow = 0;
      fits = fits && std::from_chars(begin, end, narrow).ec == std::errc() &&
             RangeOf(field).Contains(static_cast<double>(narrow));
    } else if (!IsFloat(field)) {
      fits = fits && IsWhole(value.text, field);
    }
    if (!fits || !RangeOf(field).Contains(number)) {
      return Error(
          value.place,
          path + " is " + value.text.substr(0, 40) + "; allowed: " + AllowedFor(schema_, field));
    }
    return Status::Ok();
  }

  static bool IsWhole(const std::string& text, const reflection::Field& field) {
    const char* end = text.data() + text.size();
    const auto parses = [&](auto integer) {
      const auto parsed = std::from_chars(text.data(), end, integer);
      return parsed.ec == std::errc() && parsed.ptr == end;
    };
    switch (TypeOf(field)) {
      case BaseType::Int:
        return parses(int32_t{});
      case BaseType::UInt:
        return parses(uint32_t{});
      default:
        return parses(uint64_t{});
    }
  }

  /// The field that says which others have a meaning; null when none does.
  static const reflection::Field* KindOf(const reflection::Object& table) {
    for (const char* name : {"kind", "format", "name"}) {
      const reflection::Field* field = table.fields()->LookupByKey(name);
      if (field != nullptr) {
        return field;
      }
    }
    return nullptr;
  }

  std::string DefaultKind(const reflection::Field& field) const {
    return IsEnum(field) ? std::string(EnumName(*EnumOf(schema_, field), field.default_integer()))
                         : std::string();
  }

  /// No field is set that the table's kind has no use for, and none is missing that it needs.
  Status KindFits(
      const JsonValue& value, const reflection::Object& table, const std::string& prefix) {
    const reflection::Field* kind_field = KindOf(table);
    if (kind_field == nullptr) {
      return Status::Ok();
    }
    const std::string_view what = kind_field->name()->string_view();
    const JsonValue* given = value.Find(what);
    const std::string kind = given != nullptr ? given->text : DefaultKind(*kind_field);
    for (const JsonValue& child : value.children) {
      const reflection::Field* field = table.fields()->LookupByKey(child.key.c_str());
      const auto kinds =
          field == nullptr ? std::vector<std::string_view>() : AttributeWords(*field, "for");
      if (kinds.empty() || std::ranges::find(kinds, kind) != kinds.end() ||
          SaysNothing(child, *field)) {
        continue;
      }
      return Error(
          child.key_place,
          prefix + child.key + " has no meaning for " + std::string(what) + " " + Quoted(kind) +
              "; allowed for: " + Join(kinds));
    }
    for (const reflection::Field* field : FieldsOf(table)) {
      const auto kinds = AttributeWords(*field, "needed_by");
      const JsonValue* child = value.Find(field->name()->string_view());
      if (std::ranges::find(kinds, kind) != kinds.end() &&
          (child == nullptr || SaysNothing(*child, *field))) {
        return Error(
            child == nullptr ? value.place : child->place,
            prefix + field->name()->str() + " is missing; allowed: a whole number from 1");
      }
    }
    return Status::Ok();
  }

  /// Whether the value is the default, or a table of nothing else, so that a printed config can be
  /// read back.
  bool SaysNothing(const JsonValue& value, const reflection::Field& field) const {
    if (IsList(field)) {
      return value.children.empty();
    }
    if (IsTable(field)) {
      const reflection::Object& table = TableOf(schema_, field);
      const auto& children = value.children;  // a printed table has all of its fields
      return !children.empty() && std::ranges::all_of(children, [&](const JsonValue& child) {
        const reflection::Field* const inner = table.fields()->LookupByKey(child.key.c_str());
        return inner != nullptr && SaysNothing(child, *inner);
      });
    }
    if (value.kind == Kind::kNumber && IsFloat(field)) {
      float number = 0;
      std::from_chars(value.text.data(), value.text.data() + value.text.size(), number);
      return number == static_cast<float>(field.default_real());
    }
    return value.text == DefaultOf(schema_, field);
  }

  const Schema& schema_;
  const std::string& file_;
  const JsonValue& root_;
};

}  // namespace

Status CheckSchema(JsonValue& root, const Schema& schema, const std::string& file) {
  return Checker(schema, file, root).Table(root, *schema.root_table(), "");
}

}  // namespace ps::proto
