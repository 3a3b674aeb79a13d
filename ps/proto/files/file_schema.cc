#include "ps/proto/files/file_schema.h"

#include <algorithm>
#include <charconv>

#include "job_bfbs_generated.h"
#include "ps/base/check.h"
#include "ps/base/text.h"
#include "ps/json/json_writer.h"

namespace ps::proto {
namespace {

using reflection::BaseType;

std::optional<double> NumberAttribute(const reflection::Field& field, const char* name) {
  const std::string_view text = Attribute(field, name);
  if (text.empty()) {
    return std::nullopt;
  }
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::string RangeText(const Range& range) {
  std::string text;
  if (range.min) {
    text += " from " + NumberText(*range.min);
  }
  if (range.above) {
    text += " above " + NumberText(*range.above);
  }
  if (range.max) {
    text += (range.min ? " to " : " up to ") + NumberText(*range.max);
  }
  if (range.below) {
    text += " below " + NumberText(*range.below);
  }
  return text;
}

void CollectTables(
    const Schema& schema,
    const reflection::Object& table,
    std::vector<const reflection::Object*>& tables) {
  if (std::ranges::find(tables, &table) != tables.end()) {
    return;
  }
  tables.push_back(&table);
  for (const reflection::Field* field : FieldsOf(table)) {
    if (IsTable(*field)) {
      CollectTables(schema, TableOf(schema, *field), tables);
    }
  }
}

}  // namespace

const Schema& JobSchema() {
  return *reflection::GetSchema(config::JobConfigBinarySchema::data());
}

std::vector<const reflection::Object*> TablesOf(const Schema& schema) {
  std::vector<const reflection::Object*> tables;
  CollectTables(schema, *schema.root_table(), tables);
  return tables;
}

std::vector<const reflection::Field*> FieldsOf(const reflection::Object& table) {
  std::vector<const reflection::Field*> fields(table.fields()->begin(), table.fields()->end());
  std::ranges::sort(fields, {}, [](const reflection::Field* field) { return field->id(); });
  return fields;
}

const reflection::Field& FieldNamed(const reflection::Object& table, std::string_view name) {
  const reflection::Field* field = table.fields()->LookupByKey(std::string(name).c_str());
  PS_CHECK(field != nullptr) << name << " is not in " << table.name()->string_view();
  return *field;
}

bool IsList(const reflection::Field& field) {
  return field.type()->base_type() == BaseType::Vector;
}

BaseType TypeOf(const reflection::Field& field) {
  return IsList(field) ? field.type()->element() : field.type()->base_type();
}

bool IsTable(const reflection::Field& field) {
  return TypeOf(field) == BaseType::Obj;
}

bool IsFloat(const reflection::Field& field) {
  return TypeOf(field) == BaseType::Float || TypeOf(field) == BaseType::Double;
}

const reflection::Object& TableOf(const Schema& schema, const reflection::Field& field) {
  return *schema.objects()->Get(static_cast<flatbuffers::uoffset_t>(field.type()->index()));
}

bool IsEnum(const reflection::Field& field) {
  return !IsTable(field) && field.type()->index() >= 0;
}

const reflection::Enum* EnumOf(const Schema& schema, const reflection::Field& field) {
  return IsEnum(field)
             ? schema.enums()->Get(static_cast<flatbuffers::uoffset_t>(field.type()->index()))
             : nullptr;
}

std::string_view EnumName(const reflection::Enum& values, int64_t value) {
  const reflection::EnumVal* found = values.values()->LookupByKey(value);
  PS_CHECK(found != nullptr) << values.name()->string_view() << " has no value " << value;
  return found->name()->string_view();
}

std::optional<int64_t> EnumValue(const reflection::Enum& values, std::string_view name) {
  for (const reflection::EnumVal* value : *values.values()) {
    if (value->name()->string_view() == name) {
      return value->value();
    }
  }
  return std::nullopt;
}

std::vector<std::string_view> EnumNames(const reflection::Enum& values) {
  std::vector<std::string_view> names;
  for (const reflection::EnumVal* value : *values.values()) {
    names.push_back(value->name()->string_view());
  }
  return names;
}

bool IsRequired(const reflection::Field& field) {
  const auto* attributes = field.attributes();
  return field.required() ||
         (attributes != nullptr && attributes->LookupByKey("needed") != nullptr);
}

std::string_view Attribute(const reflection::Field& field, const char* name) {
  const auto* pair =
      field.attributes() == nullptr ? nullptr : field.attributes()->LookupByKey(name);
  return pair == nullptr || pair->value() == nullptr ? std::string_view()
                                                     : pair->value()->string_view();
}

std::vector<std::string_view> AttributeWords(const reflection::Field& field, const char* name) {
  std::string_view text = Attribute(field, name);
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    words.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

bool Range::Contains(double value) const {
  return (!min || value >= *min) && (!max || value <= *max) && (!above || value > *above) &&
         (!below || value < *below);
}

Range RangeOf(const reflection::Field& field) {
  Range range{
      NumberAttribute(field, "min"),
      NumberAttribute(field, "max"),
      NumberAttribute(field, "above"),
      NumberAttribute(field, "below")};
  const BaseType type = TypeOf(field);
  if (!range.min && !range.above && (type == BaseType::UInt || type == BaseType::ULong)) {
    range.min = 0;
  }
  return range;
}

std::string AllowedFor(const Schema& schema, const reflection::Field& field) {
  std::string one;
  if (const reflection::Enum* values = EnumOf(schema, field)) {
    one = "one of " + Join(EnumNames(*values));
  } else if (IsTable(field)) {
    one = "an object";
  } else if (TypeOf(field) == BaseType::Bool) {
    one = "true or false";
  } else if (TypeOf(field) == BaseType::String) {
    const auto names = AttributeWords(field, "names");
    one = names.empty() ? "a text" : "one of " + Join(names);
    if (const auto pattern = Attribute(field, "pattern"); !pattern.empty()) {
      one += " that matches " + std::string(pattern);
    }
  } else {
    one = (IsFloat(field) ? "a number" : "a whole number") + RangeText(RangeOf(field));
    if (const auto word = Attribute(field, "zero"); !word.empty()) {
      one += ", or \"" + std::string(word) + "\"";
    }
  }
  if (!IsList(field)) {
    return one;
  }
  return IsTable(field) ? "a list of objects" : "a list, each entry " + one;
}

std::string DefaultOf(const Schema& schema, const reflection::Field& field) {
  if (IsList(field) || IsTable(field)) {
    return {};
  }
  if (const reflection::Enum* values = EnumOf(schema, field)) {
    return '"' + std::string(EnumName(*values, field.default_integer())) + '"';
  }
  switch (TypeOf(field)) {
    case BaseType::String:
      return '"' + std::string(Attribute(field, "text")) + '"';
    case BaseType::Bool:
      return field.default_integer() != 0 ? "true" : "false";
    case BaseType::Float:
      return NumberText(static_cast<float>(field.default_real()));
    case BaseType::Double:
      return NumberText(field.default_real());
    default:
      return std::to_string(field.default_integer());
  }
}

std::string CommentOf(const Documentation* documentation) {
  std::string text;
  if (documentation != nullptr) {
    for (const flatbuffers::String* line : *documentation) {
      text += line->string_view();
    }
  }
  text.erase(0, text.find_first_not_of(' '));
  return text;
}

std::string DidYouMean(std::string_view name, const std::vector<std::string_view>& candidates) {
  const std::string nearest = NearestName(name, candidates);
  return nearest.empty() ? "" : "; did you mean \"" + nearest + "\"?";
}

}  // namespace ps::proto
