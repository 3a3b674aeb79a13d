#include "ps/json/json_reader.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <utility>

#include "ps/base/utf8.h"

namespace ps {
namespace {

constexpr size_t kQuotedCharactersMax = 60;

bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}

void AppendUtf8(std::string& out, uint32_t code) {
  const auto put = [&](uint32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xc0 | (code >> 6));
    put(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    put(0xe0 | (code >> 12));
    put(0x80 | ((code >> 6) & 0x3f));
    put(0x80 | (code & 0x3f));
  } else {
    put(0xf0 | (code >> 18));
    put(0x80 | ((code >> 12) & 0x3f));
    put(0x80 | ((code >> 6) & 0x3f));
    put(0x80 | (code & 0x3f));
  }
}

}  // namespace

Status ErrorAt(const std::string& file, Place place, const std::string& what) {
  return Status::InvalidArgument(fmt::format(
      "{}:{}:{}: {}", place.is_override ? "--set" : file, place.line, place.column, what));
}

std::string Quoted(std::string_view text) {
  std::string out = "\"";
  size_t count = 0;
  while (!text.empty()) {
    if (++count > kQuotedCharactersMax) {
      out += "...";
      break;
    }
    const size_t bytes = std::max<size_t>(Utf8Bytes(text), 1);
    if (Utf8Bytes(text) > 0 && IsShown(Utf8Character(text))) {
      out += text.substr(0, bytes);
    } else {
      for (const char c : text.substr(0, bytes)) {
        out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
      }
    }
    text.remove_prefix(bytes);
  }
  return out + "\"";
}

Status JsonReader::Begin() {
  if (text_.starts_with("\xef\xbb\xbf")) {
    at_ = 3;
  }
  return SkipSpace();
}

Status JsonReader::End() {
  PS_TRY(SkipSpace());
  return AtEnd() ? Status::Ok() : Fail("there is more after the end of the document");
}

void JsonReader::Advance(size_t bytes) {
  for (const size_t end = at_ + bytes; at_ < end; ++at_) {
    if (text_[at_] == '\n' && !place_.is_override) {
      ++place_.line;
      place_.column = 1;
    } else if (!IsUtf8Continuation(text_[at_])) {
      ++place_.column;
    }
  }
}

Status JsonReader::FailHere(const std::string& wanted) const {
  if (AtEnd()) {
    return Fail("the text ends too early; expected " + wanted);
  }
  const size_t bytes = std::max<size_t>(Utf8Bytes(text_.substr(at_)), 1);
  return Fail("unexpected " + Quoted(text_.substr(at_, bytes)) + "; expected " + wanted);
}

Status JsonReader::SkipSpace() {
  while (!AtEnd()) {
    const char c = Peek();
    if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      Advance();
    } else if (c != '/' || comments_ == JsonComments::kRefused) {
      break;
    } else if (Peek(1) == '/') {
      Advance(std::min(text_.find('\n', at_), text_.size()) - at_);
    } else if (Peek(1) == '*') {
      const size_t end = text_.find("*/", at_ + 2);
      if (end == std::string_view::npos) {
        return Fail("the comment is never closed; expected \"*/\"");
      }
      Advance(end + 2 - at_);
    } else {
      break;
    }
  }
  return Status::Ok();
}

/// What is between the brackets of a list or an object, brackets included.
Status JsonReader::Children(char close, const std::function<Status()>& read_child) {
  Advance();
  PS_TRY(SkipSpace());
  if (Peek() == close) {
    Advance();
    return Status::Ok();
  }
  while (true) {
    PS_TRY(read_child());
    PS_TRY(SkipSpace());
    if (Peek() == close) {
      Advance();
      return Status::Ok();
    }
    if (Peek() != ',') {
      return FailHere(std::string("\",\" or \"") + close + "\"");
    }
    const Place comma = place_;
    Advance();
    PS_TRY(SkipSpace());
    if (Peek() == close) {
      return ErrorAt(file_, comma, "nothing follows this comma; remove it");
    }
  }
}

Status JsonReader::Object(const std::function<Status(std::string name, Place place)>& read_member) {
  if (Peek() != '{') {
    return FailHere("an object in braces");
  }
  std::map<std::string, int> lines;  // of the names so far
  return Children('}', [&]() -> Status {
    const Place place = place_;
    if (Peek() != '"') {
      return FailHere("a name in double quotes");
    }
    PS_ASSIGN(std::string name, Text());
    const auto [first, is_new] = lines.emplace(name, place.line);
    if (!is_new) {
      return ErrorAt(
          file_,
          place,
          fmt::format("{} is given twice; first in line {}", Quoted(name), first->second));
    }
    PS_TRY(SkipSpace());
    if (Peek() != ':') {
      return FailHere("\":\" after the name");
    }
    Advance();
    PS_TRY(SkipSpace());
    return read_member(std::move(name), place);
  });
}

Status JsonReader::List(const std::function<Status()>& read_element) {
  return Peek() == '[' ? Children(']', read_element) : FailHere("a list in brackets");
}

Result<std::string> JsonReader::Text() {
  if (Peek() != '"') {
    return FailHere("a text in double quotes");
  }
  std::string out;
  const Place begin = place_;
  Advance();
  while (!AtEnd() && Peek() != '"') {
    if (Peek() == '\n') {
      break;
    }
    if (Peek() == '\\') {
      PS_TRY(Escape(out));
      continue;
    }
    if (static_cast<unsigned char>(Peek()) < 0x20) {
      return Fail("a control character in a text; write it as \\u00XX");
    }
    const size_t bytes = Utf8Bytes(text_.substr(at_));
    if (bytes == 0) {
      return Fail("invalid UTF-8 in a text");
    }
    out += text_.substr(at_, bytes);
    Advance(bytes);
  }
  if (AtEnd() || Peek() != '"') {
    return ErrorAt(file_, begin, "the text is never closed; expected a double quote in this line");
  }
  Advance();
  return out;
}

Status JsonReader::Escape(std::string& out) {
  constexpr std::string_view kLetters = "\"\\/bfnrt";
  constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
  if (const size_t i = kLetters.find(Peek(1)); i != std::string_view::npos) {
    out += kMeanings[i];
    Advance(2);
    return Status::Ok();
  }
  std::optional<uint32_t> code = UnicodeEscape();
  size_t bytes = 6;
  if (code && *code >= 0xd800 && *code < 0xdc00) {
    at_ += bytes;  // looks at the second half without moving the place
    const std::optional<uint32_t> low = UnicodeEscape();
    at_ -= bytes;
    bytes = 12;
    code = low && *low >= 0xdc00 && *low < 0xe000
               ? std::optional(0x10000 + ((*code - 0xd800) << 10) + (*low - 0xdc00))
               : std::nullopt;
  } else if (code && *code >= 0xdc00 && *code < 0xe000) {
    code.reset();
  }
  if (!code || *code == 0) {
    return Fail(
        "invalid escape in a text; allowed: \\\" \\\\ \\/ \\b \\f \\n \\r \\t and \\uXXXX, not "
        "NUL");
  }
  AppendUtf8(out, *code);
  Advance(bytes);
  return Status::Ok();
}

std::optional<uint32_t> JsonReader::UnicodeEscape() const {
  if (Peek() != '\\' || Peek(1) != 'u') {
    return std::nullopt;
  }
  uint32_t code = 0;
  for (size_t i = 2; i < 6; ++i) {
    const char c = Peek(i);
    const char lower = static_cast<char>(c | 0x20);
    if (!IsDigit(c) && (lower < 'a' || lower > 'f')) {
      return std::nullopt;
    }
    code = code * 16 + static_cast<uint32_t>(IsDigit(c) ? c - '0' : lower - 'a' + 10);
  }
  return code;
}

Status JsonReader::Digits() {
  if (!IsDigit(Peek())) {
    return FailHere("a digit");
  }
  while (IsDigit(Peek())) {
    Advance();
  }
  return Status::Ok();
}

Result<std::string_view> JsonReader::Number() {
  const size_t begin = at_;
  if (Peek() == '-') {
    Advance();
  }
  if (Peek() == '0' && IsDigit(Peek(1))) {
    return Fail("a number may not begin with 0 and another digit");
  }
  PS_TRY(Digits());
  if (Peek() == '.') {
    Advance();
    PS_TRY(Digits());
  }
  if (Peek() == 'e' || Peek() == 'E') {
    Advance();
    if (Peek() == '+' || Peek() == '-') {
      Advance();
    }
    PS_TRY(Digits());
  }
  return text_.substr(begin, at_ - begin);
}

Result<std::string_view> JsonReader::Word() {
  size_t n = 0;
  while ((Peek(n) >= 'a' && Peek(n) <= 'z') || (Peek(n) >= 'A' && Peek(n) <= 'Z') ||
         Peek(n) == '_' || IsDigit(Peek(n))) {
    ++n;
  }
  const std::string_view word = text_.substr(at_, n);
  if (word != "true" && word != "false" && word != "null") {
    return n == 0 ? FailHere("a value")
                  : Fail(Quoted(word) + " is no value; put texts in double quotes");
  }
  Advance(n);
  return word;
}

}  // namespace ps
