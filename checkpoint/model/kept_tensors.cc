#include "checkpoint/model/kept_tensors.h"

#include <fmt/core.h>

#include <algorithm>

#include "ps/json/json_value.h"
#include "ps/json/json_writer.h"

namespace ps::checkpoint {
namespace {

constexpr char kKeptKey[] = "spotps_kept";
constexpr char kAsIs[] = "as_is";
constexpr char kCounters[] = "counters";
constexpr char kAliases[] = "aliases";

Status Odd(std::string_view why) {
  return Status::Corruption(
      fmt::format("{} in its metadata {}; allowed: a file that psctl wrote itself", kKeptKey, why));
}

Status ReadNames(const JsonValue& root, std::string_view field, std::set<std::string>* names) {
  const JsonValue* const list = root.Find(field);
  if (list == nullptr || list->kind != JsonValue::Kind::kList) {
    return Odd(fmt::format("has no list {}", field));
  }
  for (const JsonValue& name : list->children) {
    if (name.kind != JsonValue::Kind::kText || !names->insert(name.text).second) {
      return Odd(fmt::format("has a list {} with what is no name, or twice the same", field));
    }
  }
  return Status::Ok();
}

}  // namespace

std::pair<std::string, std::string> PrintKept(const KeptTensors& kept) {
  JsonWriter json(JsonForm::kOneLine);
  json.BeginObject();
  const std::pair<const char*, const std::set<std::string>*> lists[] = {
      {kAsIs, &kept.as_is}, {kCounters, &kept.counters}};
  for (const auto& [field, names] : lists) {
    json.BeginList(field);
    for (const std::string& name : *names) {
      json.Value(name);
    }
    json.EndList();
  }
  json.BeginList(kAliases);
  for (const auto& [alias, name] : kept.aliases) {
    json.BeginList();
    json.Value(alias);
    json.Value(name);
    json.EndList();
  }
  json.EndList();
  json.EndObject();
  return {kKeptKey, std::move(json).Take()};
}

Result<KeptTensors> ParseKept(const SafetensorsHeader& header) {
  KeptTensors kept;
  const auto found = header.metadata.find(kKeptKey);
  if (found == header.metadata.end()) {
    return kept;
  }
  const Result<JsonValue> root = ParseJson(found->second, kKeptKey);
  if (!root.ok() || root->kind != JsonValue::Kind::kObject) {
    return Odd("is no JSON object");
  }
  PS_TRY(ReadNames(*root, kAsIs, &kept.as_is));
  PS_TRY(ReadNames(*root, kCounters, &kept.counters));
  const auto is_there = [&](const std::string& name) { return header.Find(name) != nullptr; };
  if (!std::ranges::all_of(kept.as_is, is_there) ||
      !std::ranges::includes(kept.as_is, kept.counters)) {
    return Odd("names a tensor that the file doesn't have");
  }
  const JsonValue* const aliases = root->Find(kAliases);
  if (aliases == nullptr || aliases->kind != JsonValue::Kind::kList) {
    return Odd(fmt::format("has no list {}", kAliases));
  }
  for (const JsonValue& pair : aliases->children) {
    const bool is_pair = pair.kind == JsonValue::Kind::kList && pair.children.size() == 2 &&
                         pair.children[0].kind == JsonValue::Kind::kText &&
                         pair.children[1].kind == JsonValue::Kind::kText;
    if (!is_pair || is_there(pair.children[0].text) ||
        !kept.aliases.emplace(pair.children[0].text, pair.children[1].text).second) {
      return Odd(fmt::format("has a list {} with what is no pair of names, or twice", kAliases));
    }
  }
  return kept;
}

}  // namespace ps::checkpoint
