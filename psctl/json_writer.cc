#include "psctl/json_writer.h"

#include <charconv>
#include <cmath>
#include <cstdio>

namespace ps::psctl {

void JsonWriter::Separate() {
  if (needs_comma_) {
    text_ += ',';
  }
  needs_comma_ = true;
}

void JsonWriter::Key(std::string_view key) {
  Separate();
  Quote(key);
  text_ += ':';
  needs_comma_ = false;
}

void JsonWriter::Open(char c) {
  Separate();
  text_ += c;
  needs_comma_ = false;
}

void JsonWriter::Close(char c) {
  text_ += c;
  needs_comma_ = true;
}

void JsonWriter::Quote(std::string_view value) {
  text_ += '"';
  for (const char c : value) {
    if (c == '"' || c == '\\') {
      text_ += '\\';
      text_ += c;
    } else if (static_cast<unsigned char>(c) < 32) {
      char escape[8];
      std::snprintf(escape, sizeof(escape), "\\u%04x", static_cast<unsigned>(c));
      text_ += escape;
    } else {
      text_ += c;
    }
  }
  text_ += '"';
}

void JsonWriter::Field(std::string_view key, std::string_view value) {
  Key(key);
  Quote(value);
  needs_comma_ = true;
}

void JsonWriter::Field(std::string_view key, double value) {
  if (!std::isfinite(value)) {
    Null(key);
    return;
  }
  Key(key);
  char text[40];
  const auto end = std::to_chars(text, text + sizeof(text), value);
  text_.append(text, end.ptr);
  needs_comma_ = true;
}

void JsonWriter::Field(std::string_view key, uint64_t value) {
  Key(key);
  text_ += std::to_string(value);
  needs_comma_ = true;
}

void JsonWriter::Field(std::string_view key, int64_t value) {
  Key(key);
  text_ += std::to_string(value);
  needs_comma_ = true;
}

void JsonWriter::Field(std::string_view key, bool value) {
  Key(key);
  text_ += value ? "true" : "false";
  needs_comma_ = true;
}

void JsonWriter::Null(std::string_view key) {
  Key(key);
  text_ += "null";
  needs_comma_ = true;
}

void JsonWriter::Raw(std::string_view json) {
  Separate();
  text_ += json;
}

}  // namespace ps::psctl
