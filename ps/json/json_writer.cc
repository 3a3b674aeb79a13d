#include "ps/json/json_writer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "ps/base/utf8.h"

namespace ps {
namespace {

template <typename T>
std::string Shortest(T value) {
  if (!std::isfinite(value)) {
    return "null";
  }
  // "100000" rather than "1e+05": by itself to_chars would take the shorter one.
  const T size = std::abs(value);
  const bool is_plain = size == 0 || (size >= T(1e-4) && size < T(1e15));
  std::array<char, 64> buffer;
  const auto end = std::to_chars(
                       buffer.data(),
                       buffer.data() + buffer.size(),
                       value,
                       is_plain ? std::chars_format::fixed : std::chars_format::scientific)
                       .ptr;
  return {buffer.data(), end};
}

}  // namespace

std::string NumberText(float value) {
  return Shortest(value);
}

std::string NumberText(double value) {
  return Shortest(value);
}

void JsonWriter::Key(std::string_view key) {
  Value(key);
  text_ += form_ == JsonForm::kOneLine ? ":" : ": ";
  is_after_key_ = true;
}

void JsonWriter::Value(std::string_view text) {
  Separate();
  text_ += '"';
  for (size_t bytes = 0; !text.empty(); text.remove_prefix(bytes)) {
    const char c = text[0];
    bytes = std::max<size_t>(Utf8Bytes(text), 1);
    constexpr std::string_view kPlain = "\"\\\n\r\t";
    constexpr std::string_view kLetters = "\"\\nrt";
    if (const size_t i = kPlain.find(c); i != std::string_view::npos) {
      text_ += '\\';
      text_ += kLetters[i];
    } else if (c == '\0' || Utf8Bytes(text) == 0) {
      text_ += "\xef\xbf\xbd";  // U+FFFD: readers refuse NUL and invalid UTF-8
    } else if (static_cast<unsigned char>(c) < 0x20) {
      constexpr char kHex[] = "0123456789abcdef";
      text_ += std::string("\\u00") + kHex[c >> 4] + kHex[c & 15];
    } else {
      text_ += text.substr(0, bytes);
    }
  }
  text_ += '"';
}

void JsonWriter::Value(float value) {
  Raw(NumberText(value));
}

void JsonWriter::Value(double value) {
  Raw(NumberText(value));
}

void JsonWriter::Raw(std::string_view text) {
  Separate();
  text_ += text;
}

void JsonWriter::Open(char bracket) {
  Separate();
  text_ += bracket;
  ++depth_;
  is_first_ = true;
}

void JsonWriter::Close(char bracket) {
  --depth_;
  if (!is_first_) {
    BreakLine();
  }
  text_ += bracket;
  is_first_ = false;
}

void JsonWriter::Separate() {
  if (is_after_key_) {
    is_after_key_ = false;
    return;
  }
  if (depth_ == 0) {
    return;
  }
  if (!is_first_) {
    text_ += ',';
  }
  BreakLine();
  is_first_ = false;
}

void JsonWriter::BreakLine() {
  if (form_ == JsonForm::kIndented) {
    text_ += '\n';
    text_.append(2 * depth_, ' ');
  }
}

}  // namespace ps
