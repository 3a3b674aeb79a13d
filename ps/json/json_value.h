#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ps/base/status.h"
#include "ps/json/json_reader.h"

// JSON with comments as a tree that knows where everything was written.

namespace ps {

struct JsonValue {
  enum class Kind : unsigned char { kNull, kBool, kNumber, kText, kList, kObject };

  Kind kind = Kind::kNull;
  Place place;
  std::string text;                 // kText: the text; numbers and bools: as written
  std::vector<JsonValue> children;  // kList, kObject
  std::string key;                  // in an object: its name there
  Place key_place;

  /// Requires: kind is kObject for a hit.
  const JsonValue* Find(std::string_view name) const;
  JsonValue* Find(std::string_view name);
  /// The value at a path such as faults[2].worker; null when it was not written.
  const JsonValue* At(std::string_view path) const;
};

/// An error at the path under `root`, or at the innermost thing around it that was written.
Status ErrorAtPath(
    const std::string& file, const JsonValue& root, std::string_view path, const std::string& what);

/// "a list", "a number", ...
std::string_view KindName(JsonValue::Kind kind);

/// Strict JSON (RFC 8259) plus // and /* */ comments. Duplicate names, trailing commas, invalid
/// UTF-8, NUL and nesting beyond 64 are errors. `begin` is the place of the first character.
Result<JsonValue> ParseJson(std::string_view text, const std::string& file, Place begin = {});

}  // namespace ps
