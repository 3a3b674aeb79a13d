#include "tests/e2e/support/json.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace ps::e2e {
namespace {

constexpr std::string_view kDigits = "0123456789";

bool IsOneOf(char c, std::string_view set) {
  return set.find(c) != std::string_view::npos;
}

}  // namespace

/// Recursive descent over the text; every Read returns false at the first mistake.
class JsonReader {
 public:
  explicit JsonReader(std::string_view text) : text_(text) {}

  bool ReadDocument(Json* out) { return ReadValue(out) && (SkipBlanks(), at_ == text_.size()); }

 private:
  char Peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  bool Take(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) {
      return false;
    }
    at_ += word.size();
    return true;
  }

  void SkipBlanks() {
    while (at_ < text_.size() && IsOneOf(text_[at_], " \t\r\n")) {
      ++at_;
    }
  }

  bool ReadValue(Json* out) {
    SkipBlanks();
    switch (Peek()) {
      case '{':
        return ReadObject(out);
      case '[':
        return ReadList(out);
      case '"':
        out->kind_ = Json::Kind::kText;
        return ReadText(&out->text_);
      case 't':
      case 'f':
        out->kind_ = Json::Kind::kBool;
        out->number_ = Peek() == 't' ? 1 : 0;
        return Take("true") || Take("false");
      case 'n':
        return Take("null");
      default:
        return ReadNumber(out);
    }
  }

  bool TakeDigits() {
    const size_t begin = at_;
    while (at_ < text_.size() && IsOneOf(text_[at_], kDigits)) {
      ++at_;
    }
    return at_ > begin;
  }

  bool ReadNumber(Json* out) {
    const size_t begin = at_;
    Take("-");
    const bool has_leading_zero = Peek() == '0';
    const size_t first = at_;
    if (!TakeDigits() || (has_leading_zero && at_ - first > 1)) {
      return false;
    }
    if (Take(".") && !TakeDigits()) {
      return false;
    }
    if (Take("e") || Take("E")) {
      if (!Take("+")) {
        Take("-");
      }
      if (!TakeDigits()) {
        return false;
      }
    }
    out->kind_ = Json::Kind::kNumber;
    out->number_ = std::strtod(std::string(text_.substr(begin, at_ - begin)).c_str(), nullptr);
    return true;
  }

  /// Escapes beyond ASCII are checked and read as '?': no test looks at such text.
  bool ReadEscape(std::string* out) {
    constexpr std::string_view kShort = "\"\\/bfnrt";
    constexpr std::string_view kMeaning = "\"\\/\b\f\n\r\t";
    if (const size_t i = kShort.find(Peek()); i != std::string_view::npos && Peek() != '\0') {
      *out += kMeaning[i];
      ++at_;
      return true;
    }
    if (!Take("u")) {
      return false;
    }
    const std::string digits(text_.substr(at_, 4));
    if (digits.size() != 4 ||
        digits.find_first_not_of("0123456789abcdefABCDEF") != std::string::npos) {
      return false;
    }
    at_ += 4;
    const long code = std::strtol(digits.c_str(), nullptr, 16);
    *out += code < 128 ? static_cast<char>(code) : '?';
    return true;
  }

  bool ReadText(std::string* out) {
    if (!Take("\"")) {
      return false;
    }
    while (at_ < text_.size() && Peek() != '"') {
      if (static_cast<unsigned char>(Peek()) < 32) {
        return false;
      }
      if (!Take("\\")) {
        *out += text_[at_++];
      } else if (!ReadEscape(out)) {
        return false;
      }
    }
    return Take("\"");
  }

  bool ReadList(Json* out) {
    out->kind_ = Json::Kind::kList;
    Take("[");
    SkipBlanks();
    if (Take("]")) {
      return true;
    }
    do {
      if (!ReadValue(&out->items_.emplace_back())) {
        return false;
      }
      SkipBlanks();
    } while (Take(","));
    return Take("]");
  }

  bool ReadObject(Json* out) {
    out->kind_ = Json::Kind::kObject;
    Take("{");
    SkipBlanks();
    if (Take("}")) {
      return true;
    }
    do {
      SkipBlanks();
      std::string key;
      if (!ReadText(&key)) {
        return false;
      }
      SkipBlanks();
      if (!Take(":") || out->members_.contains(key) || !ReadValue(&out->members_[key])) {
        return false;
      }
      SkipBlanks();
    } while (Take(","));
    return Take("}");
  }

  std::string_view text_;
  size_t at_ = 0;
};

std::optional<Json> Json::Parse(std::string_view text) {
  Json value;
  if (!JsonReader(text).ReadDocument(&value)) {
    return std::nullopt;
  }
  return value;
}

const Json& Json::operator[](const std::string& key) const {
  static const Json kNothing;
  const auto it = members_.find(key);
  if (it == members_.end()) {
    ADD_FAILURE() << "no member '" << key << "'";
    return kNothing;
  }
  return it->second;
}

const Json& Json::operator[](size_t index) const {
  static const Json kNothing;
  if (index >= items_.size()) {
    ADD_FAILURE() << "no element " << index << " of " << items_.size();
    return kNothing;
  }
  return items_[index];
}

double Json::number() const {
  EXPECT_EQ(kind_, Kind::kNumber);
  return number_;
}

const std::string& Json::text() const {
  EXPECT_EQ(kind_, Kind::kText);
  return text_;
}

}  // namespace ps::e2e
