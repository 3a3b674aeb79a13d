#include "ps/json/json_value.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <utility>

namespace ps {
namespace {

constexpr int kJsonDepthMax = 64;

Status ReadValue(JsonReader& reader, int depth, JsonValue& out) {
  out.place = reader.place();
  if (depth > kJsonDepthMax) {
    return reader.Fail(fmt::format("nested too deeply; allowed: {} levels", kJsonDepthMax));
  }
  const char first = reader.Peek();
  if (first == '{') {
    out.kind = JsonValue::Kind::kObject;
    return reader.Object([&](std::string name, Place place) {
      JsonValue& child = out.children.emplace_back();
      child.key = std::move(name);
      child.key_place = place;
      return ReadValue(reader, depth + 1, child);
    });
  }
  if (first == '[') {
    out.kind = JsonValue::Kind::kList;
    return reader.List([&] { return ReadValue(reader, depth + 1, out.children.emplace_back()); });
  }
  if (first == '"') {
    out.kind = JsonValue::Kind::kText;
    PS_ASSIGN(out.text, reader.Text());
  } else if (first == '-' || (first >= '0' && first <= '9')) {
    out.kind = JsonValue::Kind::kNumber;
    PS_ASSIGN(out.text, reader.Number());
  } else {
    PS_ASSIGN(out.text, reader.Word());
    out.kind = out.text == "null" ? JsonValue::Kind::kNull : JsonValue::Kind::kBool;
  }
  return Status::Ok();
}

}  // namespace

const JsonValue* JsonValue::Find(std::string_view name) const {
  const auto found = std::ranges::find(children, name, &JsonValue::key);
  return found == children.end() ? nullptr : &*found;
}

JsonValue* JsonValue::Find(std::string_view name) {
  const auto found = std::ranges::find(children, name, &JsonValue::key);
  return found == children.end() ? nullptr : &*found;
}

const JsonValue* JsonValue::At(std::string_view path) const {
  const JsonValue* value = this;
  while (value != nullptr && !path.empty()) {
    if (path[0] == '[') {
      size_t index = 0;
      std::from_chars(path.data() + 1, path.data() + path.size(), index);
      path.remove_prefix(path.find(']') + 1);
      value = index < value->children.size() ? &value->children[index] : nullptr;
    } else {
      path.remove_prefix(path[0] == '.' ? 1 : 0);
      const size_t end = std::min(path.find_first_of(".["), path.size());
      value = value->Find(path.substr(0, end));
      path.remove_prefix(end);
    }
  }
  return value;
}

Status ErrorAtPath(
    const std::string& file,
    const JsonValue& root,
    std::string_view path,
    const std::string& what) {
  const JsonValue* value = root.At(path);
  for (std::string_view at = path; value == nullptr;) {
    const size_t end = at.find_last_of(".[");
    at = at.substr(0, end == std::string_view::npos ? 0 : end);
    value = root.At(at);
  }
  return ErrorAt(file, value->place, what);
}

std::string_view KindName(JsonValue::Kind kind) {
  constexpr std::string_view kNames[] = {
      "null", "true or false", "a number", "a text", "a list", "an object"};
  return kNames[static_cast<size_t>(kind)];
}

Result<JsonValue> ParseJson(std::string_view text, const std::string& file, Place begin) {
  JsonReader reader(text, file, JsonComments::kTaken, begin);
  JsonValue root;
  PS_TRY(reader.Begin());
  PS_TRY(ReadValue(reader, 0, root));
  PS_TRY(reader.End());
  return root;
}

}  // namespace ps
