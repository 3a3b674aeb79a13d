#include "checkpoint/model/safetensors_header.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <optional>
#include <tuple>
#include <utility>

#include "ps/base/text.h"
#include "ps/base/utf8.h"

namespace ps::checkpoint {
namespace {

constexpr uint64_t kDataAlignment = 64;
constexpr std::string_view kMetadata = "__metadata__";
constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD
constexpr std::array<std::string_view, 4> kTypeNames = {"F64", "F32", "F16", "BF16"};

std::string ShapeText(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : ",", shape[i]);
  }
  return text + "]";
}

void AppendUtf8(uint32_t code, std::string* out) {
  if (code < 0x80) {
    *out += static_cast<char>(code);
    return;
  }
  const int rest = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  const std::array<uint32_t, 4> leads = {0, 0xc0, 0xe0, 0xf0};
  *out += static_cast<char>(leads[static_cast<size_t>(rest)] | (code >> (6 * rest)));
  for (int i = rest - 1; i >= 0; --i) {
    *out += static_cast<char>(0x80U | ((code >> (6 * i)) & 0x3fU));
  }
}

std::string Quoted(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const size_t n = Utf8Bytes(text);
    if (n == 0) {
      out += kReplacement;
    } else if (text[0] == '"' || text[0] == '\\') {
      out += {'\\', text[0]};
    } else if (static_cast<uint8_t>(text[0]) < 0x20) {
      out += fmt::format("\\u{:04x}", text[0]);
    } else {
      out += text.substr(0, n);
    }
    text.remove_prefix(std::max<size_t>(n, 1));
  }
  return out + "\"";
}

/// Reads the one form of JSON that a header has: objects of objects, texts, lists of numbers.
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view json) : json_(json) {}

  Result<SafetensorsHeader> Parse() {
    SafetensorsHeader header;
    PS_TRY(Members([&](const std::string& name) {
      return name == kMetadata ? Metadata(&header) : Tensor(name, &header);
    }));
    SkipSpace();
    if (at_ != json_.size()) {
      return Wrong("something follows the header's end");
    }
    return header;
  }

 private:
  Status Wrong(std::string_view what) const {
    return Status::Corruption(fmt::format("the header's byte {}: {}", at_, what));
  }

  void SkipSpace() {
    while (at_ < json_.size() && std::string_view(" \t\r\n").find(json_[at_]) != json_.npos) {
      ++at_;
    }
  }

  /// Whether the next character is `c`, which is taken then.
  bool Take(char c) {
    SkipSpace();
    const bool is_there = at_ < json_.size() && json_[at_] == c;
    at_ += is_there ? 1 : 0;
    return is_there;
  }

  Status Expect(char c) {
    return Take(c) ? Status::Ok() : Wrong(fmt::format("'{}' is missing", c));
  }

  /// An object; `member` reads the value of each key.
  template <typename Member>
  Status Members(const Member& member) {
    PS_TRY(Expect('{'));
    if (Take('}')) {
      return Status::Ok();
    }
    do {
      PS_ASSIGN(const std::string key, Text());
      PS_TRY(Expect(':'));
      PS_TRY(member(key));
    } while (Take(','));
    return Expect('}');
  }

  Result<uint32_t> Hex4() {
    uint32_t code = 0;
    for (int i = 0; i < 4; ++i, ++at_) {
      const char c = at_ < json_.size() ? json_[at_] : '\0';
      const bool is_digit = c >= '0' && c <= '9';
      const auto lower = static_cast<char>(c | 0x20);
      if (!is_digit && (lower < 'a' || lower > 'f')) {
        return Wrong("\\u needs four hex digits");
      }
      code = code * 16 + static_cast<uint32_t>(is_digit ? c - '0' : lower - 'a' + 10);
    }
    return code;
  }

  Status Escape(std::string* out) {
    constexpr std::string_view kNames = "\"\\/bfnrt";
    constexpr std::string_view kValues = "\"\\/\b\f\n\r\t";
    const char c = at_ < json_.size() ? json_[at_++] : '\0';
    if (const size_t place = kNames.find(c); place != kNames.npos && c != '\0') {
      *out += kValues[place];
      return Status::Ok();
    }
    if (c != 'u') {
      return Wrong("no such escape in a text");
    }
    PS_ASSIGN(uint32_t code, Hex4());
    if (code >= 0xd800 && code < 0xdc00 && json_.substr(at_, 2) == "\\u") {
      at_ += 2;
      PS_ASSIGN(const uint32_t low, Hex4());
      if (low < 0xdc00 || low >= 0xe000) {
        return Wrong("half of a surrogate pair");
      }
      code = 0x10000 + ((code - 0xd800) << 10U) + (low - 0xdc00);
    }
    if (code >= 0xd800 && code < 0xe000) {
      return Wrong("half of a surrogate pair");
    }
    AppendUtf8(code, out);
    return Status::Ok();
  }

  Result<std::string> Text() {
    PS_TRY(Expect('"'));
    std::string text;
    while (at_ < json_.size() && json_[at_] != '"') {
      const char c = json_[at_++];
      if (static_cast<uint8_t>(c) < 0x20) {
        return Wrong("a control character in a text");
      }
      if (c != '\\') {
        text += c;
      } else {
        PS_TRY(Escape(&text));
      }
    }
    PS_TRY(Expect('"'));
    return text;
  }

  Result<uint64_t> Number() {
    SkipSpace();
    const size_t begin = at_;
    uint64_t number = 0;
    for (; at_ < json_.size() && json_[at_] >= '0' && json_[at_] <= '9'; ++at_) {
      const auto digit = static_cast<uint64_t>(json_[at_] - '0');
      if (number > (static_cast<uint64_t>(INT64_MAX) - digit) / 10) {
        return Wrong("a number is too large");
      }
      number = number * 10 + digit;
    }
    if (at_ == begin || (json_[begin] == '0' && at_ > begin + 1)) {
      return Wrong("a whole number is missing");
    }
    return number;
  }

  Result<std::vector<uint64_t>> Numbers() {
    std::vector<uint64_t> numbers;
    PS_TRY(Expect('['));
    if (Take(']')) {
      return numbers;
    }
    do {
      PS_ASSIGN(const uint64_t number, Number());
      numbers.push_back(number);
    } while (Take(','));
    PS_TRY(Expect(']'));
    return numbers;
  }

  Status Metadata(SafetensorsHeader* header) {
    return Members([&](const std::string& key) {
      PS_ASSIGN(std::string value, Text());
      const bool is_new = header->metadata.emplace(key, std::move(value)).second;
      return is_new ? Status::Ok() : Wrong("a key of __metadata__ is there twice");
    });
  }

  /// Of what Tensor has read.
  struct Fields {
    std::optional<std::string> type;
    std::optional<std::vector<uint64_t>> shape;
    std::optional<std::vector<uint64_t>> offsets;
  };

  Status Field(const std::string& key, Fields* fields) {
    if (key == "dtype" && !fields->type) {
      PS_ASSIGN(fields->type, Text());
    } else if (key == "shape" && !fields->shape) {
      PS_ASSIGN(fields->shape, Numbers());
    } else if (key == "data_offsets" && !fields->offsets) {
      PS_ASSIGN(fields->offsets, Numbers());
    } else {
      return Wrong(fmt::format("\"{}\" is unknown or there twice", Clip(Printable(key), 40)));
    }
    return Status::Ok();
  }

  Status Tensor(const std::string& name, SafetensorsHeader* header) {
    const std::string who = fmt::format("tensor \"{}\"", Clip(Printable(name), 120));
    Fields fields;
    Status read = Members([&](const std::string& key) { return Field(key, &fields); });
    PS_TRY(std::move(read).Annotate(who));
    if (!fields.type || !fields.shape || !fields.offsets || fields.offsets->size() != 2) {
      return Status::Corruption(
          fmt::format("{} needs dtype, shape, and data_offsets of two numbers", who));
    }
    StoredTensor tensor;
    tensor.name = name;
    const auto* const type = std::find(kTypeNames.begin(), kTypeNames.end(), *fields.type);
    if (type == kTypeNames.end()) {
      return Status::Unsupported(fmt::format(
          "{} has elements of type {}; taken are {}",
          who,
          Clip(Printable(*fields.type), 20),
          Join(kTypeNames)));
    }
    tensor.type = static_cast<ElementType>(type - kTypeNames.begin());
    tensor.begin = fields.offsets->at(0);
    const uint64_t end = fields.offsets->at(1);
    uint64_t elements = 1;
    bool is_fitting = end >= tensor.begin;
    for (const uint64_t dim : *fields.shape) {
      is_fitting =
          is_fitting && (dim == 0 || elements <= static_cast<uint64_t>(INT64_MAX) / 8 / dim);
      elements = is_fitting ? elements * dim : 0;
      tensor.shape.push_back(static_cast<int64_t>(dim));
    }
    tensor.element_count = static_cast<int64_t>(elements);
    if (!is_fitting || tensor.byte_count() != end - tensor.begin) {
      return Status::Corruption(fmt::format(
          "{} of type {} and shape {} does not fill its data_offsets {} to {}",
          who,
          *fields.type,
          Clip(ShapeText(tensor.shape), 80),
          tensor.begin,
          end));
    }
    header->tensors.push_back(std::move(tensor));
    return Status::Ok();
  }

  const std::string_view json_;
  size_t at_ = 0;
};

Status CheckNames(const std::vector<StoredTensor>& tensors) {
  std::vector<std::string_view> names;
  for (const StoredTensor& tensor : tensors) {
    names.push_back(tensor.name);
  }
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) {
    return Status::Corruption(
        fmt::format("tensor \"{}\" is there twice", Clip(Printable(*twice), 120)));
  }
  return Status::Ok();
}

/// Sorts the tensors as they lie in the file: back to back over all of the data.
Status OrderByPlace(uint64_t data_bytes, std::vector<StoredTensor>* tensors) {
  std::sort(tensors->begin(), tensors->end(), [](const auto& a, const auto& b) {
    return std::tuple(a.begin, a.byte_count(), std::string_view(a.name)) <
           std::tuple(b.begin, b.byte_count(), std::string_view(b.name));
  });
  uint64_t end = 0;
  for (const StoredTensor& tensor : *tensors) {
    if (tensor.begin != end || tensor.byte_count() > data_bytes - end) {
      return Status::Corruption(fmt::format(
          "tensor \"{}\" is to lie at bytes {} to {} of the data; it has to begin at {}, and there "
          "are {} bytes of data",
          Clip(Printable(tensor.name), 120),
          tensor.begin,
          tensor.begin + tensor.byte_count(),
          end,
          data_bytes));
    }
    end += tensor.byte_count();
  }
  if (end != data_bytes) {
    return Status::Corruption(
        fmt::format("the tensors have {} bytes, but {} bytes of data are there", end, data_bytes));
  }
  return Status::Ok();
}

}  // namespace

std::string_view ElementTypeName(ElementType type) {
  return kTypeNames[static_cast<size_t>(type)];
}

uint64_t ElementBytes(ElementType type) {
  return type == ElementType::kF64 ? 8 : type == ElementType::kF32 ? 4 : 2;
}

const StoredTensor* SafetensorsHeader::Find(std::string_view name) const {
  const auto it = std::find_if(
      tensors.begin(), tensors.end(), [&](const StoredTensor& t) { return t.name == name; });
  return it == tensors.end() ? nullptr : &*it;
}

Result<SafetensorsHeader> ParseSafetensorsHeader(std::string_view json, uint64_t data_bytes) {
  PS_ASSIGN(SafetensorsHeader header, HeaderParser(json).Parse());
  PS_TRY(CheckNames(header.tensors));
  PS_TRY(OrderByPlace(data_bytes, &header.tensors));
  return header;
}

std::string PrintSafetensorsHeader(const SafetensorsHeader& header) {
  std::string json = "{";
  if (!header.metadata.empty()) {
    std::string pairs;
    for (const auto& [key, value] : header.metadata) {
      pairs += fmt::format("{}{}:{}", pairs.empty() ? "" : ",", Quoted(key), Quoted(value));
    }
    json += fmt::format("\"{}\":{{{}}}", kMetadata, pairs);
  }
  for (const StoredTensor& tensor : header.tensors) {
    json += fmt::format(
        R"({}{}:{{"dtype":"{}","shape":{},"data_offsets":[{},{}]}})",
        json.size() == 1 ? "" : ",",
        Quoted(tensor.name),
        ElementTypeName(tensor.type),
        ShapeText(tensor.shape),
        tensor.begin,
        tensor.begin + tensor.byte_count());
  }
  json += "}";
  json.resize(
      (kSafetensorsLengthBytes + json.size() + kDataAlignment - 1) / kDataAlignment *
              kDataAlignment -
          kSafetensorsLengthBytes,
      ' ');
  std::string bytes;
  for (uint64_t i = 0; i < kSafetensorsLengthBytes; ++i) {
    bytes += static_cast<char>(json.size() >> (8 * i) & 0xffU);
  }
  return bytes + json;
}

SafetensorsHeader HeaderOf(
    std::span<const TensorSpec> tensors,
    ElementType type,
    std::map<std::string, std::string> metadata) {
  SafetensorsHeader header;
  header.metadata = std::move(metadata);
  for (const TensorSpec& spec : tensors) {
    const uint64_t begin = header.data_bytes();
    header.tensors.push_back({spec.name, type, spec.shape, spec.element_count(), begin});
  }
  return header;
}

Status CheckTensors(const SafetensorsHeader& header, std::span<const TensorSpec> tensors) {
  std::map<std::string_view, const StoredTensor*> rest;
  for (const StoredTensor& tensor : header.tensors) {
    rest.emplace(tensor.name, &tensor);
  }
  for (const TensorSpec& spec : tensors) {
    const auto it = rest.find(spec.name);
    if (it == rest.end()) {
      return Status::InvalidArgument(fmt::format(
          "it has no tensor \"{}\", which the model has with shape {}",
          Printable(spec.name),
          ShapeText(spec.shape)));
    }
    if (it->second->shape != spec.shape) {
      return Status::InvalidArgument(fmt::format(
          "its tensor \"{}\" has shape {}, the model's has {}",
          Printable(spec.name),
          Clip(ShapeText(it->second->shape), 80),
          ShapeText(spec.shape)));
    }
    rest.erase(it);
  }
  if (!rest.empty()) {
    return Status::InvalidArgument(fmt::format(
        "it has a tensor \"{}\" that the model does not have{}",
        Clip(Printable(rest.begin()->first), 120),
        rest.size() == 1 ? "" : fmt::format(", and {} more such", rest.size() - 1)));
  }
  return Status::Ok();
}

}  // namespace ps::checkpoint
