#include "ps/proto/job_manual.h"

#include <algorithm>
#include <vector>

#include "ps/proto/job_schema.h"
#include "ps/proto/json_writer.h"

namespace ps::proto {
namespace {

using reflection::BaseType;

/// "ps.config.TrainConfig" -> "TrainConfig"
std::string ShortName(const flatbuffers::String& name) {
  return name.str().substr(name.str().rfind('.') + 1);
}

/// Each table once, a table before those inside it.
void CollectTables(
    const reflection::Object& table, std::vector<const reflection::Object*>& tables) {
  if (std::ranges::find(tables, &table) != tables.end()) {
    return;
  }
  tables.push_back(&table);
  for (const reflection::Field* field : FieldsOf(table)) {
    if (IsTable(*field)) {
      CollectTables(TableOf(*field), tables);
    }
  }
}

std::vector<const reflection::Object*> AllTables() {
  std::vector<const reflection::Object*> tables;
  CollectTables(JobTable(), tables);
  return tables;
}

// ---- JSON Schema

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
void WriteType(JsonWriter& json, const reflection::Field& field) {
  if (IsTable(field)) {
    json.Key("$ref");
    json.Text("#/definitions/" + ShortName(*TableOf(field).name()));
    return;
  }
  json.Key("type");
  if (const reflection::Enum* values = EnumOf(field)) {
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
std::string Described(const reflection::Field& field) {
  std::string text = CommentOf(field.documentation());
  if (const reflection::Enum* values = EnumOf(field)) {
    for (const reflection::EnumVal* value : *values->values()) {
      text += "\n" + value->name()->str() + ": " + CommentOf(value->documentation());
    }
  }
  return text;
}

void WriteField(JsonWriter& json, const reflection::Field& field) {
  json.Key(field.name()->string_view());
  json.BeginObject();
  json.Key("description");
  json.Text(Described(field));
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
    WriteType(json, field);
    json.EndObject();
  } else {
    WriteType(json, field);
    const std::string otherwise = DefaultOf(field);
    if (!otherwise.empty() && otherwise != "\"\"") {
      json.Key("default");
      json.Raw(otherwise);
    }
  }
  json.EndObject();
}

void WriteTableSchema(JsonWriter& json, const reflection::Object& table) {
  json.Key("type");
  json.Text("object");
  json.Key("description");
  json.Text(CommentOf(table.documentation()));
  json.Key("additionalProperties");
  json.Bool(false);
  std::vector<std::string_view> required;
  json.Key("properties");
  json.BeginObject();
  if (&table == &JobTable()) {
    json.Key("$schema");
    json.BeginObject();
    json.Key("type");
    json.Text("string");
    json.EndObject();
  }
  for (const reflection::Field* field : FieldsOf(table)) {
    WriteField(json, *field);
    if (field->required()) {
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

// ---- Markdown

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
    if (!IsTable(*field) || &TableOf(*field) == &from) {
      continue;
    }
    std::string name = field->name()->str() + (IsList(*field) ? "[]" : "");
    if (&TableOf(*field) == &wanted) {
      return name;
    }
    if (const std::string inner = PathTo(wanted, TableOf(*field)); !inner.empty()) {
      return name.append(".").append(inner);
    }
  }
  return {};
}

std::string FieldRow(const reflection::Field& field) {
  std::string allowed = AllowedFor(field);
  if (const reflection::Enum* values = EnumOf(field)) {
    allowed = "";
    for (const std::string_view name : EnumNames(*values)) {
      allowed += (allowed.empty() ? "`" : ", `") + std::string(name) + "`";
    }
  } else if (IsTable(field)) {
    const std::string path = PathTo(TableOf(field), JobTable());
    allowed = (IsList(field) ? "list of `" : "`") + path + "`";
  }
  std::string otherwise = field.required() ? "**required**" : DefaultOf(field);
  if (!field.required()) {
    otherwise = otherwise.empty() || otherwise == "\"\"" ? "" : "`" + otherwise + "`";
  }
  std::string comment = CommentOf(field.documentation());
  if (const auto kinds = AttributeWords(field, "for"); !kinds.empty()) {
    comment += " Only for " + Joined(kinds) + ".";
  }
  return "| `" + field.name()->str() + "` | " + otherwise + " | " + Cell(allowed) + " | " +
         Cell(comment) + " |\n";
}

std::string TableSection(const reflection::Object& table) {
  const std::string path = PathTo(table, JobTable());
  std::string text = path.empty() ? "## The file\n\n" : "## `" + path + "`\n\n";
  text += CommentOf(table.documentation()) + "\n\n";
  text += "| Field | Default | Allowed | Meaning |\n|---|---|---|---|\n";
  for (const reflection::Field* field : FieldsOf(table)) {
    text += FieldRow(*field);
  }
  for (const reflection::Field* field : FieldsOf(table)) {
    if (const reflection::Enum* values = EnumOf(*field)) {
      text += "\nValues of `" + field->name()->str() + "`:\n\n";
      for (const reflection::EnumVal* value : *values->values()) {
        text += "- `" + value->name()->str() + "`: " + CommentOf(value->documentation()) + "\n";
      }
    }
  }
  return text + "\n";
}

constexpr const char* kManualHead = R"(# The job file

<!-- Made from configs/job.fbs by job_schema_tool --manual. Change that file, not this one. -->

A job file is JSON with `//` and `/* */` comments. What is not said has the default below. A file
that says something unknown, out of range or impossible is refused with one line:

    FILE:LINE:COLUMN: what is wrong; what is allowed; did you mean "X"?

Every field can be changed from the command line, in the order given:

    psctl train job.json --set train.epochs=1 --set workers[0].count=2 --set faults=[]

The value is read as JSON; what is not JSON is taken as text. `workers[N]` with the first free `N`
adds an entry. An error in the n-th `--set` is shown as `--set:n:COLUMN`.

`psctl train job.json --print-config` prints the file with all defaults filled in. Editors complete
and check a file whose first field is `"$schema": "job.schema.json"`.

Rules that span fields:

- `model` has a `name` or `layers`, not both. `linear` and `conv2d` need `out`, `residual` needs
  `layers`.
- A field that its table's `kind` has no use for must keep its default.
- `optimizer.nesterov` needs `optimizer.momentum`. Schedule `step` needs ascending `milestones`.
- `train.overlap` cannot be asked for with mode `ssp` or `bsp`, or with `optimizer.clip_norm`.
- Mode `ssp` needs `train.staleness_max` of at least 1.
- `servers.queue_mib` holds at least two frames, and two chunks.
- A fault names a seat that somebody has by then: workers of the file, plus those added earlier.
- `data.directory` exists on the machine that reads the file.

)";

}  // namespace

std::string JobJsonSchema() {
  JsonWriter json;
  json.BeginObject();
  json.Key("$schema");
  json.Text("http://json-schema.org/draft-07/schema#");
  json.Key("$comment");
  json.Text("Made from configs/job.fbs by job_schema_tool --json-schema. Change that file.");
  json.Key("title");
  json.Text("spotps job");
  WriteTableSchema(json, JobTable());
  json.Key("definitions");
  json.BeginObject();
  for (const reflection::Object* table : AllTables()) {
    if (table != &JobTable()) {
      json.Key(ShortName(*table->name()));
      json.BeginObject();
      WriteTableSchema(json, *table);
      json.EndObject();
    }
  }
  json.EndObject();
  json.EndObject();
  return std::move(json).Take();
}

std::string JobManual() {
  std::string text = kManualHead;
  for (const reflection::Object* table : AllTables()) {
    text += TableSection(*table);
  }
  text.pop_back();  // one newline at the end
  return text;
}

}  // namespace ps::proto
