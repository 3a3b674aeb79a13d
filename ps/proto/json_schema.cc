#include "ps/proto/json_schema.h"

#include <vector>

#include "ps/proto/file_schema.h"
#include "ps/proto/json_writer.h"

namespace ps::proto {
namespace {

using reflection::BaseType;

/// "ps.config.TrainConfig" -> "TrainConfig"
std::string ShortName(const flatbuffers::String& name) {
  return name.str().substr(name.str().rfind('.') + 1);
}

void WriteEnum(JsonWriter& json, const std::vector<std::string_view>& names) {
  json.Key("enum");
  json.BeginList();
  for (const std::string_view name : names) {
    json.Text(name);
  }
  json.EndList();
}

void WriteBound(JsonWriter& json, std::string_view key, const std::optional<double>& bound) {
  if (bound) {
    json.Key(key);
    json.Double(*bound);
  }
}

/// The keywords of one value, without brackets.
void WriteType(JsonWriter& json, const Schema& schema, const reflection::Field& field) {
  if (IsTable(field)) {
    json.Key("$ref");
    json.Text("#/definitions/" + ShortName(*TableOf(schema, field).name()));
    return;
  }
  json.Key("type");
  if (const reflection::Enum* values = EnumOf(schema, field)) {
    json.Text("string");
    return WriteEnum(json, EnumNames(*values));
  }
  switch (TypeOf(field)) {
    case BaseType::String:
      json.Text("string");
      if (const auto names = AttributeWords(field, "names"); !names.empty()) {
        WriteEnum(json, names);
      } else if (const auto pattern = Attribute(field, "pattern"); !pattern.empty()) {
        json.Key("pattern");
        json.Text(pattern);
      } else {
        json.Key("minLength");
        json.Int(1);
      }
      return;
    case BaseType::Bool:
      return json.Text("boolean");
    default:
      break;
  }
  json.Text(IsFloat(field) ? "number" : "integer");
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
  json.Key(field.name()->string_view());
  json.BeginObject();
  json.Key("description");
  json.Text(Described(schema, field));
  if (IsList(field)) {
    json.Key("type");
    json.Text("array");
    if (const auto least = Attribute(field, "min_items"); !least.empty()) {
      json.Key("minItems");
      json.Raw(least);
    }
    if (const auto most = Attribute(field, "max_items"); !most.empty()) {
      json.Key("maxItems");
      json.Raw(most);
    }
    json.Key("items");
    json.BeginObject();
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
  json.Key("type");
  json.Text("object");
  json.Key("description");
  json.Text(CommentOf(table.documentation()));
  json.Key("additionalProperties");
  json.Bool(false);
  std::vector<std::string_view> required;
  json.Key("properties");
  json.BeginObject();
  if (&table == schema.root_table()) {
    json.Key("$schema");
    json.BeginObject();
    json.Key("type");
    json.Text("string");
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
    json.Key("required");
    json.BeginList();
    for (const std::string_view name : required) {
      json.Text(name);
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
  json.Key("$schema");
  json.Text("http://json-schema.org/draft-07/schema#");
  json.Key("$comment");
  json.Text(
      "Made from configs/" + file + ".fbs by schema_tool --json-schema " + file +
      ". Change that file.");
  json.Key("title");
  json.Text("spotps " + file);
  WriteTableSchema(json, *schema, *schema->root_table());
  json.Key("definitions");
  json.BeginObject();
  for (const reflection::Object* table : TablesOf(*schema)) {
    if (table != schema->root_table()) {
      json.Key(ShortName(*table->name()));
      json.BeginObject();
      WriteTableSchema(json, *schema, *table);
      json.EndObject();
    }
  }
  json.EndObject();
  json.EndObject();
  return std::move(json).Take();
}

}  // namespace ps::proto
