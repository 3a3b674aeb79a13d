#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ps {

enum class JsonForm : uint8_t {
  kIndented,  // by two spaces, with a newline at its end
  kOneLine,   // without spaces and newlines, unless Raw brings some
};

/// Writes strict JSON in the order of the calls, which have to nest as JSON does.
///   JsonWriter json(JsonForm::kOneLine);
///   json.BeginObject(); json.Field("steps", 3); json.EndObject();
///   std::move(json).Take() == R"({"steps":3})"
class JsonWriter {
 public:
  explicit JsonWriter(JsonForm form = JsonForm::kIndented) : form_(form) {}

  void BeginObject() { Open('{'); }

  void BeginObject(std::string_view key) {
    Key(key);
    Open('{');
  }

  void EndObject() { Close('}'); }

  void BeginList() { Open('['); }

  void BeginList(std::string_view key) {
    Key(key);
    Open('[');
  }

  void EndList() { Close(']'); }

  void Key(std::string_view key);

  void Value(std::string_view text);

  void Value(const char* text) { Value(std::string_view(text)); }

  void Value(bool value) { Raw(value ? "true" : "false"); }

  void Value(std::nullptr_t) { Raw("null"); }

  template <std::integral T>
  void Value(T value) {
    Raw(std::to_string(value));
  }

  /// The shortest text that reads back as the same value; null for NaN and infinity.
  void Value(float value);
  void Value(double value);
  /// A value that is JSON already.
  void Raw(std::string_view text);

  template <typename T>
  void Field(std::string_view key, const T& value) {
    Key(key);
    Value(value);
  }

  /// The document.
  std::string Take() && {
    return form_ == JsonForm::kOneLine ? std::move(text_) : std::move(text_) + "\n";
  }

 private:
  void Open(char bracket);
  void Close(char bracket);
  /// Comma, newline and indentation in front of the next thing.
  void Separate();
  void BreakLine();

  const JsonForm form_;
  std::string text_;
  size_t depth_ = 0;
  bool is_first_ = true;
  bool is_after_key_ = false;
};

/// The shortest text that reads back as the same number: "0.01", "100000", "1e-08".
std::string NumberText(float value);
std::string NumberText(double value);

}  // namespace ps
