#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ps::proto {

/// Writes strict JSON, indented by two spaces. Calls have to nest as JSON does.
class JsonWriter {
 public:
  void BeginObject() { Open('{'); }

  void EndObject() { Close('}'); }

  void BeginList() { Open('['); }

  void EndList() { Close(']'); }

  void Key(std::string_view key);
  void Text(std::string_view text);

  void Bool(bool value) { Raw(value ? "true" : "false"); }

  void Int(int64_t value) { Raw(std::to_string(value)); }

  void Uint(uint64_t value) { Raw(std::to_string(value)); }

  /// The shortest text that reads back as the same value; null for NaN and infinity.
  void Float(float value);
  void Double(double value);
  /// A number or word that is JSON already.
  void Raw(std::string_view text);

  /// The document, with a newline at its end.
  std::string Take() && { return std::move(text_) + "\n"; }

 private:
  void Open(char bracket);
  void Close(char bracket);
  /// Comma, newline and indentation in front of the next thing.
  void Separate();

  std::string text_;
  size_t depth_ = 0;
  bool is_first_ = true;
  bool is_after_key_ = false;
};

/// The shortest text that reads back as the same number: "0.01", "100000", "1e-08".
std::string NumberText(float value);
std::string NumberText(double value);

}  // namespace ps::proto
