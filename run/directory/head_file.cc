#include "run/directory/head_file.h"

#include <cmath>
#include <cstdlib>

#include "ps/base/durable_file.h"
#include "ps/base/file.h"
#include "ps/json/json_value.h"
#include "ps/json/json_writer.h"
#include "run/directory/files.h"

namespace ps::run {
namespace {

constexpr size_t kHeadBytesMax = size_t{64} << 10;

Result<HeadFile> HeadOf(const JsonValue& json, const std::string& path) {
  HeadFile head;
  const auto text = [&json](std::string_view name) -> Result<std::string> {
    const JsonValue* const value = json.Find(name);
    return value != nullptr && value->kind == JsonValue::Kind::kText
               ? Result<std::string>(value->text)
               : Status::Corruption("no text \"" + std::string(name) + "\"");
  };
  const auto flag = [&json](std::string_view name) -> Result<bool> {
    const JsonValue* const value = json.Find(name);
    return value != nullptr && (value->text == "true" || value->text == "false")
               ? Result<bool>(value->text == "true")
               : Status::Corruption("neither true nor false is \"" + std::string(name) + "\"");
  };
  PS_ASSIGN(head.login, text("login").Annotate(path));
  PS_ASSIGN(head.programs, text("programs").Annotate(path));
  if (json.Find("from") != nullptr) {
    PS_ASSIGN(head.from, text("from").Annotate(path));
  }
  if (const JsonValue* const changes = json.Find("changes"); changes != nullptr) {
    for (const JsonValue& change : changes->children) {
      head.changes.push_back(change.text);
    }
  }
  if (json.Find("is_trusted") != nullptr) {
    PS_ASSIGN(head.is_trusted, flag("is_trusted").Annotate(path));
  }
  PS_ASSIGN(head.is_started, flag("is_started").Annotate(path));
  PS_ASSIGN(head.is_begun, flag("is_begun").Annotate(path));
  PS_ASSIGN(head.is_given_up, flag("is_given_up").Annotate(path));
  PS_ASSIGN(head.is_fetched, flag("is_fetched").Annotate(path));
  PS_ASSIGN(head.is_given_back, flag("is_given_back").Annotate(path));
  const auto cost = [&json](std::string_view name) -> Result<double> {
    const JsonValue* const value = json.Find(name);
    const double usd = value == nullptr ? 0 : std::strtod(value->text.c_str(), nullptr);
    return std::isfinite(usd) && usd >= 0
               ? Result<double>(usd)
               : Status::Corruption("\"" + std::string(name) + "\" is no cost");
  };
  PS_ASSIGN(head.usd_per_hour, cost("usd_per_hour").Annotate(path));
  PS_ASSIGN(head.usd, cost("usd").Annotate(path));
  return head;
}

}  // namespace

Result<std::optional<HeadFile>> ReadHeadFile(const RunPaths& run) {
  const std::string path = run.head();
  const Result<std::string> text = ReadSmallFile(path, kHeadBytesMax);
  if (!text.ok() && text.status().code() == StatusCode::kNotFound) {
    return std::optional<HeadFile>();
  }
  PS_TRY(text.status());
  PS_ASSIGN(const JsonValue json, ParseJson(*text, path));
  if (json.kind != JsonValue::Kind::kObject) {
    return Status::Corruption(path + " is no object");
  }
  PS_ASSIGN(HeadFile head, HeadOf(json, path));
  return std::optional(std::move(head));
}

Status WriteHeadFile(const RunPaths& run, const HeadFile& head) {
  JsonWriter json;
  json.BeginObject();
  json.Field("login", head.login);
  json.Field("programs", head.programs);
  json.Field("from", head.from);
  json.BeginList("changes");
  for (const std::string& change : head.changes) {
    json.Value(change);
  }
  json.EndList();
  json.Field("is_trusted", head.is_trusted);
  json.Field("is_started", head.is_started);
  json.Field("is_begun", head.is_begun);
  json.Field("is_given_up", head.is_given_up);
  json.Field("is_fetched", head.is_fetched);
  json.Field("is_given_back", head.is_given_back);
  json.Field("usd_per_hour", head.usd_per_hour);
  json.Field("usd", head.usd);
  json.EndObject();
  return WriteFileAtomically(run.head(), std::move(json).Take() + "\n");
}

bool IsElsewhere(const RunPaths& run) {
  const Result<std::optional<HeadFile>> head = ReadHeadFile(run);
  return !head.ok() || (head->has_value() && !(*head)->is_given_back);
}

std::string FolderOnHead(const RunPaths& run) {
  return "spotps/" + BaseName(run.root);
}

}  // namespace ps::run
