// Paths such as train.epochs and workers[0].count, and how they reach into the tree.

#include <fmt/core.h>

#include <charconv>
#include <vector>

#include "ps/proto/job/job_check.h"

namespace ps::proto {
namespace {

const std::string kNoFile;  // ErrorAt writes --set in its place

struct Segment {
  std::string name;  // empty: an index
  size_t index = 0;
  Place place;
};

Status BadPath(Place place, const std::string& what) {
  return ErrorAt(kNoFile, place, what + "; allowed: names and indices, as in workers[0].count");
}

bool IsNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-';
}

Result<std::vector<Segment>> ParsePath(std::string_view path, int number) {
  std::vector<Segment> segments;
  size_t at = 0;
  const auto place = [&] { return Place{number, static_cast<int>(at) + 1, true}; };
  while (at < path.size()) {
    Segment segment;
    if (path[at] == '[' && !segments.empty()) {
      const char* begin = path.data() + at + 1;
      const char* end = path.data() + path.size();
      segment.place = place();
      const auto parsed = std::from_chars(begin, end, segment.index);
      if (parsed.ec != std::errc() || parsed.ptr == end || *parsed.ptr != ']') {
        return BadPath(place(), "there is no index in these brackets");
      }
      at = static_cast<size_t>(parsed.ptr - path.data()) + 1;
    } else {
      at += path[at] == '.' && !segments.empty() ? 1 : 0;
      segment.place = place();
      const size_t begin = at;
      while (at < path.size() && IsNameCharacter(path[at])) {
        ++at;
      }
      segment.name = path.substr(begin, at - begin);
      if (segment.name.empty()) {
        return BadPath(place(), "a name is missing in " + Quoted(path));
      }
    }
    segments.push_back(std::move(segment));
  }
  if (segments.empty()) {
    return BadPath(place(), "there is no name before \"=\"");
  }
  return segments;
}

/// The child that a segment names, made if need be.
Result<JsonValue*> Descend(JsonValue& parent, const Segment& segment) {
  const bool by_name = !segment.name.empty();
  const auto wanted = by_name ? JsonValue::Kind::kObject : JsonValue::Kind::kList;
  if (parent.kind != wanted) {
    return ErrorAt(
        kNoFile,
        segment.place,
        parent.kind == JsonValue::Kind::kList
            ? "this is a list; write an index, as in [0]"
            : std::string("this is ") + std::string(KindName(parent.kind)) +
                  (by_name ? ", which has no fields" : ", which has no entries"));
  }
  if (by_name) {
    if (JsonValue* child = parent.Find(segment.name)) {
      return child;
    }
  } else if (segment.index < parent.children.size()) {
    return &parent.children[segment.index];
  } else if (segment.index > parent.children.size()) {
    return ErrorAt(
        kNoFile,
        segment.place,
        fmt::format(
            "there is no entry {}; allowed: 0 to {}, the last one being new",
            segment.index,
            parent.children.size()));
  }
  JsonValue child;
  child.key = segment.name;
  child.place = child.key_place = segment.place;
  parent.children.push_back(std::move(child));
  return &parent.children.back();
}

/// JSON, or else the text as it is. Lists and objects are always JSON.
Result<JsonValue> ParseValue(std::string_view text, Place place) {
  Result<JsonValue> parsed = ParseJson(text, kNoFile, place);
  if (parsed.ok() || text.starts_with('[') || text.starts_with('{') || text.starts_with('"')) {
    return parsed;
  }
  JsonValue value;
  value.kind = JsonValue::Kind::kText;
  value.place = place;
  value.text = text;
  return value;
}

}  // namespace

Status ApplyOverride(JsonValue& root, const ConfigOverride& override, int number) {
  PS_ASSIGN(const auto segments, ParsePath(override.key, number));
  const Place value_place{number, static_cast<int>(override.key.size()) + 2, true};
  PS_ASSIGN(JsonValue value, ParseValue(override.value, value_place));
  JsonValue* at = &root;
  for (const Segment& segment : segments) {
    if (at->kind == JsonValue::Kind::kNull) {
      at->kind = segment.name.empty() ? JsonValue::Kind::kList : JsonValue::Kind::kObject;
    }
    PS_ASSIGN(at, Descend(*at, segment));
  }
  value.key = std::move(at->key);
  value.key_place = segments.back().place;
  *at = std::move(value);
  return Status::Ok();
}

}  // namespace ps::proto
