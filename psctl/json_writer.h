#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ps::psctl {

/// Writes one JSON value on one line (unless Raw brings newlines), in the order of the calls.
/// Infinity and NaN become null.
///   JsonWriter w; w.BeginObject(); w.Field("steps", 3); w.EndObject(); w.text() ==
///   R"({"steps":3})"
class JsonWriter {
 public:
  void BeginObject() { Open('{'); }

  void BeginObject(std::string_view key) {
    Key(key);
    Open('{');
  }

  void EndObject() { Close('}'); }

  void BeginArray(std::string_view key) {
    Key(key);
    Open('[');
  }

  void BeginArray() { Open('['); }

  void EndArray() { Close(']'); }

  void Field(std::string_view key, std::string_view value);

  void Field(std::string_view key, const char* value) { Field(key, std::string_view(value)); }

  void Field(std::string_view key, double value);
  void Field(std::string_view key, uint64_t value);

  void Field(std::string_view key, uint32_t value) { Field(key, uint64_t{value}); }

  void Field(std::string_view key, int64_t value);
  void Field(std::string_view key, bool value);
  void Null(std::string_view key);
  /// A value that is JSON already.
  void Raw(std::string_view json);

  void Raw(std::string_view key, std::string_view json) {
    Key(key);
    Raw(json);
  }

  const std::string& text() const { return text_; }

 private:
  void Separate();
  void Key(std::string_view key);
  void Open(char c);
  void Close(char c);
  void Quote(std::string_view value);

  std::string text_;
  bool needs_comma_ = false;
};

}  // namespace ps::psctl
