#include "ps/proto/json_schema.h"

#include <vector>

#include "ps/proto/json_writer.h"
#include "ps/proto/planning_schema.h"

namespace ps::proto {
namespace {

using reflection::BaseType;

/// "ps.config.TrainConfig" -> "TrainConfig"
std::string ShortName(const flatbuffers::String& name) {
  return name.str().substr(name.str().rfind('.') + 1);
}

void WriteEnum(JsonWriter& json, const std::vector<std::string_view>& names) {
  json.BeginList("enum");
  for (const std::string_view name : names) {
    json.Value(name);
  }
  json.EndList();
}

void WriteBound(JsonWriter& json, std::string_view key, const std::optional<double>& bound) {
  if (bound) {
    json.Field(key, *bound);
  }
}

/// The keywords of one value, without brackets.
void WriteType(JsonWriter& json, const Schema& schema, const reflection::Field& field) {
  if (IsTable(field)) {
    json.Field("$ref", "#/definitions/" + ShortName(*TableOf(schema, field).name()));
    return;
  }
  json.Key("type");
  if (const reflection::Enum* values = EnumOf(schema, field)) {
    json.Value("string");
    return WriteEnum(json, EnumNames(*values));
  }
  switch (TypeOf(field)) {
    case BaseType::String:
      json.Value("string");
      if (const auto names = AttributeWords(field, "names"); !names.empty()) {
        WriteEnum(json, names);
      } else if (const auto pattern = Attribute(field, "pattern"); !pattern.empty()) {
        json.Field("pattern", pattern);
      } else {
        json.Field("minLength", 1);
      }
      return;
    case BaseType::Bool:
      return json.Value("boolean");
    default:
      break;
  }
  json.Value(IsFloat(field) ? "number" : "integer");
  const Range range = RangeOf(field);
  WriteBound(json, "minimum", range.min);
  WriteBound(json, "maximum", range.max);
  WriteBound(json, "exclusiveMinimum", range.above);
  WriteBound(json, "exclusiveMaximum", range.below);
}

/// Values of an enum with their comments, for the hover text.
std::string Described(const Schema& schema, const reflection::Field& field) {
  std::string text = CommentOf(field.documentation());
  if (const reflection::Enum* values = EnumOf(schema, field)) {
    for (const reflection::EnumVal* value : *values->values()) {
      text += "\n" + value->name()->str() + ": " + CommentOf(value->documentation());
    }
  }
  return text;
}

void WriteField(JsonWriter& json, const Schema& schema, const reflection::Field& field) {
  json.BeginObject(field.name()->string_view());
  json.Field("description", Described(schema, field));
  if (IsList(field)) {
    json.Field("type", "array");
    if (const auto least = Attribute(field, "min_items"); !least.empty()) {
      json.Key("minItems");
      json.Raw(least);
    }
    if (const auto most = Attribute(field, "max_items"); !most.empty()) {
      json.Key("maxItems");
      json.Raw(most);
    }
    json.BeginObject("items");
    WriteType(json, schema, field);
    json.EndObject();
  } else {
    WriteType(json, schema, field);
    const std::string otherwise = DefaultOf(schema, field);
    if (!IsRequired(field) && !otherwise.empty() && otherwise != "\"\"") {
      json.Key("default");
      json.Raw(otherwise);
    }
  }
  json.EndObject();
}

void WriteTableSchema(JsonWriter& json, const Schema& schema, const reflection::Object& table) {
  json.Field("type", "object");
  json.Field("description", CommentOf(table.documentation()));
  json.Field("additionalProperties", false);
  std::vector<std::string_view> required;
  json.BeginObject("properties");
  if (&table == schema.root_table()) {
    json.BeginObject("$schema");
    json.Field("type", "string");
    json.EndObject();
  }
  for (const reflection::Field* field : FieldsOf(table)) {
    WriteField(json, schema, *field);
    if (IsRequired(*field)) {
      required.push_back(field->name()->string_view());
    }
  }
  json.EndObject();
  if (!required.empty()) {
    json.BeginList("required");
    for (const std::string_view name : required) {
      json.Value(name);
    }
    json.EndList();
  }
}

const Schema* SchemaNamed(std::string_view name) {
  if (name == "job") {
    return &JobSchema();
  }
  if (name == "catalog") {
    return &CatalogSchema();
  }
  if (name == "profile") {
    return &ProfileSchema();
  }
  return name == "plan" ? &PlanSchema() : nullptr;
}

}  // namespace

std::string JsonSchemaOf(std::string_view name) {
  const Schema* schema = SchemaNamed(name);
  if (schema == nullptr) {
    return {};
  }
  const std::string file(name);
  JsonWriter json;
  json.BeginObject();
  json.Field("$schema", "http://json-schema.org/draft-07/schema#");
  json.Field(
      "$comment",
      "Made from configs/" + file + ".fbs by schema_tool --json-schema " + file +
          ". Change that file.");
  json.Field("title", "spotps " + file);
  WriteTableSchema(json, *schema, *schema->root_table());
  json.BeginObject("definitions");
  for (const reflection::Object* table : TablesOf(*schema)) {
    if (table != schema->root_table()) {
      json.BeginObject(ShortName(*table->name()));
      WriteTableSchema(json, *schema, *table);
      json.EndObject();
    }
  }
  json.EndObject();
  json.EndObject();
  return std::move(json).Take();
}

}  // namespace ps::proto
