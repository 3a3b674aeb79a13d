#include "ps/json/json_value.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <set>

#include "ps/base/utf8.h"

namespace ps {
namespace {

constexpr int kJsonDepthMax = 64;
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

class Parser {
 public:
  Parser(std::string_view text, const std::string& file, Place begin)
      : text_(text), file_(file), place_(begin) {}

  Result<JsonValue> Document() {
    if (text_.starts_with("\xef\xbb\xbf")) {
      at_ = 3;
    }
    PS_TRY(SkipSpace());
    JsonValue root;
    PS_TRY(Value(root, 0));
    PS_TRY(SkipSpace());
    if (!AtEnd()) {
      return Fail("there is more after the end of the document");
    }
    return root;
  }

 private:
  bool AtEnd() const { return at_ == text_.size(); }

  char Peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }

  void Advance(size_t bytes = 1) {
    for (const size_t end = at_ + bytes; at_ < end; ++at_) {
      if (text_[at_] == '\n' && !place_.is_override) {
        ++place_.line;
        place_.column = 1;
      } else if (!IsUtf8Continuation(text_[at_])) {
        ++place_.column;
      }
    }
  }

  Status Fail(const std::string& what) const { return ErrorAt(file_, place_, what); }

  Status FailHere(const std::string& wanted) const {
    if (AtEnd()) {
      return Fail("the text ends too early; expected " + wanted);
    }
    const size_t bytes = std::max<size_t>(Utf8Bytes(text_.substr(at_)), 1);
    return Fail("unexpected " + Quoted(text_.substr(at_, bytes)) + "; expected " + wanted);
  }

  Status SkipSpace() {
    while (!AtEnd()) {
      const char c = Peek();
      if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
        Advance();
      } else if (c == '/' && Peek(1) == '/') {
        Advance(std::min(text_.find('\n', at_), text_.size()) - at_);
      } else if (c == '/' && Peek(1) == '*') {
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

  Status Value(JsonValue& out, int depth) {
    out.place = place_;
    if (depth > kJsonDepthMax) {
      return Fail(fmt::format("nested too deeply; allowed: {} levels", kJsonDepthMax));
    }
    switch (Peek()) {
      case '{':
        out.kind = JsonValue::Kind::kObject;
        return Children(out, '}', depth);
      case '[':
        out.kind = JsonValue::Kind::kList;
        return Children(out, ']', depth);
      case '"':
        out.kind = JsonValue::Kind::kText;
        return Text(out.text);
      default:
        return Peek() == '-' || IsDigit(Peek()) ? Number(out) : Word(out);
    }
  }

  /// What is between the brackets of a list or an object, brackets included.
  Status Children(JsonValue& out, char close, int depth) {
    Advance();
    PS_TRY(SkipSpace());
    if (Peek() == close && !AtEnd()) {
      Advance();
      return Status::Ok();
    }
    std::set<std::string> keys;
    while (true) {
      JsonValue child;
      if (out.kind == JsonValue::Kind::kObject) {
        PS_TRY(Key(out, keys, child));
      }
      PS_TRY(Value(child, depth + 1));
      out.children.push_back(std::move(child));
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

  /// `keys` are those of `object`: looking for each among its children takes the square of them.
  Status Key(const JsonValue& object, std::set<std::string>& keys, JsonValue& child) {
    child.key_place = place_;
    if (Peek() != '"') {
      return FailHere("a name in double quotes");
    }
    PS_TRY(Text(child.key));
    if (!keys.insert(child.key).second) {
      const JsonValue* const first = object.Find(child.key);
      return ErrorAt(
          file_,
          child.key_place,
          fmt::format(
              "{} is given twice; first in line {}", Quoted(child.key), first->key_place.line));
    }
    PS_TRY(SkipSpace());
    if (Peek() != ':') {
      return FailHere("\":\" after the name");
    }
    Advance();
    return SkipSpace();
  }

  Status Text(std::string& out) {
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
      return ErrorAt(
          file_, begin, "the text is never closed; expected a double quote in this line");
    }
    Advance();
    return Status::Ok();
  }

  Status Escape(std::string& out) {
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

  /// The number of "\uXXXX" at the cursor, which stays.
  std::optional<uint32_t> UnicodeEscape() const {
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

  Status Digits() {
    if (!IsDigit(Peek())) {
      return FailHere("a digit");
    }
    while (IsDigit(Peek())) {
      Advance();
    }
    return Status::Ok();
  }

  Status Number(JsonValue& out) {
    out.kind = JsonValue::Kind::kNumber;
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
    out.text = text_.substr(begin, at_ - begin);
    return Status::Ok();
  }

  Status Word(JsonValue& out) {
    size_t n = 0;
    while ((Peek(n) >= 'a' && Peek(n) <= 'z') || (Peek(n) >= 'A' && Peek(n) <= 'Z') ||
           Peek(n) == '_' || IsDigit(Peek(n))) {
      ++n;
    }
    out.text = text_.substr(at_, n);
    if (out.text == "true" || out.text == "false") {
      out.kind = JsonValue::Kind::kBool;
    } else if (out.text != "null") {
      return n == 0 ? FailHere("a value")
                    : Fail(Quoted(out.text) + " is no value; put texts in double quotes");
    }
    Advance(n);
    return Status::Ok();
  }

  std::string_view text_;
  const std::string& file_;
  size_t at_ = 0;
  Place place_;
};

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
    const size_t bytes = Utf8Bytes(text);
    const auto byte = static_cast<unsigned char>(text[0]);
    if (bytes == 0 || byte < 0x20 || byte == 0x7f) {
      constexpr char kHex[] = "0123456789abcdef";
      out += std::string("\\x") + kHex[byte >> 4] + kHex[byte & 15];
    } else {
      out += text.substr(0, bytes);
    }
    text.remove_prefix(std::max<size_t>(bytes, 1));
  }
  return out + "\"";
}

std::string_view KindName(JsonValue::Kind kind) {
  constexpr std::string_view kNames[] = {
      "null", "true or false", "a number", "a text", "a list", "an object"};
  return kNames[static_cast<size_t>(kind)];
}

Result<JsonValue> ParseJson(std::string_view text, const std::string& file, Place begin) {
  return Parser(text, file, begin).Document();
}

}  // namespace ps
