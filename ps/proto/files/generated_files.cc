#include "ps/proto/files/generated_files.h"

#include <algorithm>
#include <vector>

#include "ps/base/text.h"
#include "ps/json/json_writer.h"
#include "ps/proto/files/file_schema.h"

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

void WriteNumber(JsonWriter& json, const reflection::Field& field) {
  json.Field("type", IsFloat(field) ? "number" : "integer");
  const Range range = RangeOf(field);
  WriteBound(json, "minimum", range.min);
  WriteBound(json, "maximum", range.max);
  WriteBound(json, "exclusiveMinimum", range.above);
  WriteBound(json, "exclusiveMaximum", range.below);
}

/// The keywords of one value, without brackets.
void WriteType(JsonWriter& json, const Schema& schema, const reflection::Field& field) {
  if (IsTable(field)) {
    json.Field("$ref", "#/definitions/" + ShortName(*TableOf(schema, field).name()));
    return;
  }
  if (const auto word = Attribute(field, "zero"); !word.empty()) {
    json.BeginList("anyOf");
    json.BeginObject();
    WriteNumber(json, field);
    json.EndObject();
    json.BeginObject();
    WriteEnum(json, {word});
    json.EndObject();
    return json.EndList();
  }
  if (!IsEnum(field) && TypeOf(field) != BaseType::String && TypeOf(field) != BaseType::Bool) {
    return WriteNumber(json, field);
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
    default:
      return json.Value("boolean");
  }
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
    if (IsRequired(*field) && Attribute(*field, "unless").empty()) {
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

constexpr size_t kColumns = 120;

/// A paragraph or list item of lines of at most kColumns characters, without a newline at the end;
/// `indent` begins every line but the first.
std::string Wrapped(const std::string& text, const std::string& indent = "") {
  std::string lines;
  size_t column = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    const size_t length = end - at;
    if (column > 0 && column + 1 + length > kColumns) {
      lines += "\n" + indent;
      column = indent.size();
    } else if (column > 0) {
      lines += " ";
      ++column;
    }
    lines.append(text, at, length);
    column += length;
    at = end + 1;
  }
  return lines;
}

/// Makes a text safe for a table cell.
std::string Cell(std::string text) {
  for (size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) {
    text.insert(at, "\\");
  }
  return text;
}

/// How one gets to a table from the root: "optimizer.schedule", "workers[]".
std::string PathTo(const reflection::Object& wanted, const reflection::Object& from) {
  for (const reflection::Field* field : FieldsOf(from)) {
    if (!IsTable(*field) || &TableOf(JobSchema(), *field) == &from) {
      continue;
    }
    std::string name = field->name()->str() + (IsList(*field) ? "[]" : "");
    if (&TableOf(JobSchema(), *field) == &wanted) {
      return name;
    }
    if (const std::string inner = PathTo(wanted, TableOf(JobSchema(), *field)); !inner.empty()) {
      return name.append(".").append(inner);
    }
  }
  return {};
}

std::string FieldRow(const reflection::Field& field) {
  std::string allowed = AllowedFor(JobSchema(), field);
  if (const reflection::Enum* values = EnumOf(JobSchema(), field)) {
    allowed = "";
    for (const std::string_view name : EnumNames(*values)) {
      allowed += (allowed.empty() ? "`" : ", `") + std::string(name) + "`";
    }
  } else if (IsTable(field)) {
    const std::string path = PathTo(TableOf(JobSchema(), field), *JobSchema().root_table());
    allowed = (IsList(field) ? "list of `" : "`") + path + "`";
  }
  std::string otherwise = IsRequired(field) ? "**required**" : DefaultOf(JobSchema(), field);
  if (const std::string_view other = Attribute(field, "unless"); !other.empty()) {
    otherwise += " without `" + std::string(other) + "`";
  }
  if (!IsRequired(field)) {
    otherwise = otherwise.empty() || otherwise == "\"\"" ? "" : "`" + otherwise + "`";
  }
  std::string comment = CommentOf(field.documentation());
  if (const auto kinds = AttributeWords(field, "for"); !kinds.empty()) {
    comment += " Only for " + Join(kinds) + ".";
  }
  return "| `" + field.name()->str() + "` | " + otherwise + " | " + Cell(allowed) + " | " +
         Cell(comment) + " |\n";
}

std::string TableSection(const reflection::Object& table) {
  const std::string path = PathTo(table, *JobSchema().root_table());
  std::string text = path.empty() ? "## The file\n\n" : "## `" + path + "`\n\n";
  text += Wrapped(CommentOf(table.documentation())) + "\n\n";
  text += "| Field | Default | Allowed | Meaning |\n|---|---|---|---|\n";
  for (const reflection::Field* field : FieldsOf(table)) {
    text += FieldRow(*field);
  }
  for (const reflection::Field* field : FieldsOf(table)) {
    if (const reflection::Enum* values = EnumOf(JobSchema(), *field)) {
      text += "\nValues of `" + field->name()->str() + "`:\n\n";
      for (const reflection::EnumVal* value : *values->values()) {
        const std::string item =
            "- `" + value->name()->str() + "`: " + CommentOf(value->documentation());
        text += Wrapped(item, "  ") + "\n";
      }
    }
  }
  return text + "\n";
}

constexpr const char* kManualHead = R"(# The job file

<!-- Made from configs/job.fbs by schema_tool --manual. Change that file, not this one. -->

A job file is JSON with `//` and `/* */` comments. A field that is absent has the default below. A
file with a field that is unknown, out of range or impossible is refused with one line:

    FILE:LINE:COLUMN: what is wrong; what is allowed; did you mean "X"?

Every field can be changed from the command line, in the order given:

    psctl train job.json --set train.epochs=1 --set workers[0].count=2 --set faults=[]

The value is read as JSON; a value that is not JSON is taken as text. `workers[N]` with the first
free `N` adds an entry. An error in the n-th `--set` is shown as `--set:n:COLUMN`.

`psctl train job.json --print-config` prints the file with all defaults filled in. Entries of lists
(layers, workers, faults) show only the fields that differ from their defaults. Editors complete and
check a file whose first field is `"$schema": "job.schema.json"`, the path of that file in
`configs`.

Rules that span fields:

- `model` has a `name` or `layers`, not both. `residual` needs `layers`.
- `model.heads` divides `model.width`. Of text, `bert` needs `data.mask`, and `gpt` has none.
- A field that its table's `kind` (`data.format`, `model.name`) has no use for must keep its
  default.
- `optimizer.nesterov` needs `optimizer.momentum`. Schedule `step` needs ascending `milestones`.
- `train.overlap` cannot be asked for with mode `ssp` or `bsp`, or with `optimizer.clip_norm`;
  with a `train.mode_policy` other than `fixed`, which needs mode `bsp`, it is of the time in
  `async`.
- Mode `ssp` needs `train.staleness_max` of at least 1.
- `servers.queue_mib` holds at least two frames.
- `servers.max_detect_s` is 0, or at least `fleet.max_detect_s`.
- A fault names a seat that is taken by then, by a worker of the file or by one added earlier.
- At most 16,384 workers in all, those that faults add included, and 1,024 shards. A model has at
  most 100,000 chunks; `servers.chunk_kib` follows from that for large ones. In mode `bsp`
  `servers.queue_mib` holds a gradient of each worker for the part of the model on a shard.
- `data.directory` exists on the machine that reads the file, or is in an object store.

)";

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

std::string JobManual() {
  std::string text = kManualHead;
  for (const reflection::Object* table : TablesOf(JobSchema())) {
    text += TableSection(*table);
  }
  text.pop_back();  // one newline at the end
  return text;
}

}  // namespace ps::proto
