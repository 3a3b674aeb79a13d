#include "ps/aws/xml.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <utility>

#include "ps/base/text.h"

namespace ps::aws {
namespace {

constexpr size_t kDepthMax = 32;
constexpr size_t kElementsMax = 100'000;
constexpr std::string_view kBlanks = " \t\r\n";

/// As UTF-8; nothing for what is no character.
std::optional<std::string> Utf8Of(uint32_t code) {
  if (code == 0 || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) {
    return std::nullopt;
  }
  const auto tail = [code](int shift) {
    return static_cast<char>(0x80 | ((code >> shift) & 0x3F));
  };
  if (code < 0x80) {
    return std::string{static_cast<char>(code)};
  }
  if (code < 0x800) {
    return std::string{static_cast<char>(0xC0 | (code >> 6)), tail(0)};
  }
  if (code < 0x10000) {
    return std::string{static_cast<char>(0xE0 | (code >> 12)), tail(6), tail(0)};
  }
  return std::string{static_cast<char>(0xF0 | (code >> 18)), tail(12), tail(6), tail(0)};
}

/// What the entity between "&" and ";" stands for: "amp", "#43", "#x2F".
std::optional<std::string> Entity(std::string_view name) {
  constexpr std::pair<std::string_view, std::string_view> kNamed[] = {
      {"amp", "&"}, {"lt", "<"}, {"gt", ">"}, {"quot", "\""}, {"apos", "'"}};
  for (const auto& [entity, text] : kNamed) {
    if (name == entity) {
      return std::string(text);
    }
  }
  if (!name.starts_with('#')) {
    return std::nullopt;
  }
  const bool is_hex = name.starts_with("#x");
  const std::string_view digits = name.substr(is_hex ? 2 : 1);
  const char* const end = digits.data() + digits.size();
  uint32_t code = 0;
  const auto parsed = std::from_chars(digits.data(), end, code, is_hex ? 16 : 10);
  return parsed.ec == std::errc() && parsed.ptr == end ? Utf8Of(code) : std::nullopt;
}

void AppendUnescaped(std::string_view text, std::string* out) {
  constexpr size_t kEntityBytesMax = 12;
  while (!text.empty()) {
    const size_t end =
        text.front() == '&' ? text.substr(0, kEntityBytesMax + 1).find(';') : text.npos;
    const auto entity =
        end != text.npos ? Entity(text.substr(1, end - 1)) : std::optional<std::string>();
    const size_t plain = std::min(text.find('&', 1), text.size());
    *out += entity ? *entity : std::string(text.substr(0, plain));
    text.remove_prefix(entity ? end + 1 : plain);
  }
}

/// Reads from the front; elements that are open wait in a list, not on the stack.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  Result<XmlElement> Read() {
    while (!is_done_) {
      const size_t tag = text_.find('<', at_);
      PS_TRY(Characters(text_.substr(at_, std::min(tag, text_.size()) - at_)));
      if (tag == text_.npos) {
        return Fail("it ends too early");
      }
      at_ = tag;
      PS_TRY(Tag());
    }
    while (at_ < text_.size()) {
      PS_TRY(AfterTheRoot());
    }
    return std::move(root_);
  }

 private:
  Status Fail(const std::string& why) const {
    return Status::Corruption(fmt::format("no XML: {}, at byte {}", why, at_));
  }

  bool At(std::string_view what) const { return text_.substr(at_).starts_with(what); }

  /// What is in front of `end`, which is passed too.
  Result<std::string_view> Until(std::string_view begin, std::string_view end) {
    const size_t found = text_.find(end, at_ + begin.size());
    if (found == text_.npos) {
      return Fail(fmt::format("no {} after {}", end, begin));
    }
    const std::string_view inside = text_.substr(at_ + begin.size(), found - at_ - begin.size());
    at_ = found + end.size();
    return inside;
  }

  Status Characters(std::string_view text) {
    if (!open_.empty()) {
      AppendUnescaped(text, &open_.back().text);
    } else if (text.find_first_not_of("\xEF\xBB\xBF \t\r\n") != text.npos) {
      return Fail("text outside of the first element");
    }
    return Status::Ok();
  }

  Status Tag() {
    if (At("<!--")) {
      return Until("<!--", "-->").status();
    }
    if (At("<?")) {
      return Until("<?", "?>").status();
    }
    if (At("<![CDATA[") && !open_.empty()) {
      PS_ASSIGN(const std::string_view text, Until("<![CDATA[", "]]>"));
      open_.back().text += text;
      return Status::Ok();
    }
    return At("</") ? EndTag() : BeginTag();
  }

  Status AfterTheRoot() {
    if (kBlanks.find(text_[at_]) != kBlanks.npos) {
      ++at_;
      return Status::Ok();
    }
    return At("<!--") ? Until("<!--", "-->").status() : Fail("something follows the last element");
  }

  Status BeginTag() {
    PS_ASSIGN(std::string_view inside, Until("<", ">"));
    const bool is_empty = inside.ends_with('/');
    inside.remove_suffix(is_empty ? 1 : 0);
    const std::string_view name = inside.substr(0, inside.find_first_of(kBlanks));
    const size_t colon = name.find(':');
    XmlElement element;
    element.name = colon == name.npos ? name : name.substr(colon + 1);
    if (element.name.empty() || name.find_first_of("<>&\"'=!/") != name.npos) {
      return Fail(fmt::format("<{}> is no element", Printable(Clip(name, 40))));
    }
    if (open_.size() == kDepthMax || ++elements_ > kElementsMax) {
      return Fail("too many elements");
    }
    open_.push_back(std::move(element));
    return is_empty ? Close() : Status::Ok();
  }

  Status EndTag() {
    PS_ASSIGN(std::string_view name, Until("</", ">"));
    name = name.substr(0, name.find_first_of(kBlanks));
    const size_t colon = name.find(':');
    name = colon == name.npos ? name : name.substr(colon + 1);
    if (open_.empty() || open_.back().name != name) {
      return Fail(fmt::format("</{}> ends nothing", Printable(Clip(name, 40))));
    }
    return Close();
  }

  Status Close() {
    XmlElement element = std::move(open_.back());
    open_.pop_back();
    if (open_.empty()) {
      root_ = std::move(element);
      is_done_ = true;
    } else {
      open_.back().children.push_back(std::move(element));
    }
    return Status::Ok();
  }

  const std::string_view text_;
  size_t at_ = 0;
  size_t elements_ = 0;
  std::vector<XmlElement> open_;
  XmlElement root_;
  bool is_done_ = false;
};

}  // namespace

const XmlElement* XmlElement::Find(std::string_view child) const {
  for (const XmlElement& element : children) {
    if (element.name == child) {
      return &element;
    }
  }
  return nullptr;
}

const XmlElement* XmlElement::At(std::string_view path) const {
  const XmlElement* element = this;
  while (element != nullptr && !path.empty()) {
    const size_t slash = path.find('/');
    element = element->Find(path.substr(0, slash));
    path = slash == path.npos ? std::string_view() : path.substr(slash + 1);
  }
  return element;
}

std::string_view XmlElement::TextAt(std::string_view path) const {
  const XmlElement* const element = At(path);
  return element == nullptr ? std::string_view() : element->text;
}

const std::vector<XmlElement>& XmlElement::ChildrenAt(std::string_view path) const {
  static const std::vector<XmlElement> none;
  const XmlElement* const element = At(path);
  return element == nullptr ? none : element->children;
}

Result<XmlElement> ParseXml(std::string_view text) {
  return Reader(text).Read();
}

}  // namespace ps::aws
