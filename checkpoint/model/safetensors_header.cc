#include "checkpoint/model/safetensors_header.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <tuple>
#include <utility>

#include "ps/base/text.h"
#include "ps/base/utf8.h"
#include "ps/json/json_reader.h"

namespace ps::checkpoint {
namespace {

constexpr uint64_t kDataAlignment = 64;
constexpr std::string_view kMetadata = "__metadata__";
constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD
constexpr std::array<std::string_view, kElementTypes> kTypeNames = {
    "F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8", "U64", "U32", "U16", "U8", "BOOL"};

std::string JsonText(std::string_view text) {
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
  explicit HeaderParser(std::string_view json)
      : reader_(json, "the header", JsonComments::kRefused) {}

  Result<SafetensorsHeader> Parse() {
    SafetensorsHeader header;
    const Status read = Document(&header);
    // What is wrong with a file's bytes, where the reader speaks of what somebody has typed.
    if (read.code() == StatusCode::kInvalidArgument) {
      return Status::Corruption(std::string(read.message()));
    }
    PS_TRY(read);
    return header;
  }

 private:
  Status Document(SafetensorsHeader* header) {
    PS_TRY(reader_.Begin());
    PS_TRY(reader_.Object([&](const std::string& name, Place) {
      return name == kMetadata ? Metadata(header) : Tensor(name, header);
    }));
    return reader_.End();
  }

  Result<std::vector<uint64_t>> Numbers() {
    std::vector<uint64_t> numbers;
    PS_TRY(reader_.List([&]() -> Status {
      PS_ASSIGN(const std::string_view text, reader_.Number());
      int64_t number = -1;
      const char* const end = text.data() + text.size();
      if (std::from_chars(text.data(), end, number).ptr != end || number < 0) {
        return reader_.Fail(
            fmt::format("{} is no whole number from 0 to {}", Quoted(text), INT64_MAX));
      }
      numbers.push_back(static_cast<uint64_t>(number));
      return Status::Ok();
    }));
    return numbers;
  }

  Status Metadata(SafetensorsHeader* header) {
    return reader_.Object([&](const std::string& key, Place) -> Status {
      PS_ASSIGN(header->metadata[key], reader_.Text());
      return Status::Ok();
    });
  }

  /// What Tensor has read.
  struct Fields {
    std::optional<std::string> type;
    std::optional<std::vector<uint64_t>> shape;
    std::optional<std::vector<uint64_t>> offsets;
  };

  Status Field(const std::string& key, Fields* fields) {
    if (key == "dtype") {
      PS_ASSIGN(fields->type, reader_.Text());
    } else if (key == "shape") {
      PS_ASSIGN(fields->shape, Numbers());
    } else if (key == "data_offsets") {
      PS_ASSIGN(fields->offsets, Numbers());
    } else {
      return reader_.Fail(
          fmt::format("unknown field {}; allowed: dtype, shape, data_offsets", Quoted(key)));
    }
    return Status::Ok();
  }

  Status Tensor(const std::string& name, SafetensorsHeader* header) {
    const std::string who = fmt::format("tensor \"{}\"", Clip(Printable(name), 120));
    Fields fields;
    Status read =
        reader_.Object([&](const std::string& key, Place) { return Field(key, &fields); });
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
          Join(std::span(kTypeNames))));
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

  JsonReader reader_;
};

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
  switch (type) {
    case ElementType::kF64:
    case ElementType::kI64:
    case ElementType::kU64:
      return 8;
    case ElementType::kF32:
    case ElementType::kI32:
    case ElementType::kU32:
      return 4;
    case ElementType::kI8:
    case ElementType::kU8:
    case ElementType::kBool:
      return 1;
    default:
      return 2;
  }
}

std::string ShapeText(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : ",", shape[i]);
  }
  return text + "]";
}

const StoredTensor* SafetensorsHeader::Find(std::string_view name) const {
  const auto it = std::find_if(
      tensors.begin(), tensors.end(), [&](const StoredTensor& t) { return t.name == name; });
  return it == tensors.end() ? nullptr : &*it;
}

Result<SafetensorsHeader> ParseSafetensorsHeader(std::string_view json, uint64_t data_bytes) {
  PS_ASSIGN(SafetensorsHeader header, HeaderParser(json).Parse());
  PS_TRY(OrderByPlace(data_bytes, &header.tensors));
  return header;
}

std::string PrintSafetensorsHeader(const SafetensorsHeader& header) {
  std::string json = "{";
  if (!header.metadata.empty()) {
    std::string pairs;
    for (const auto& [key, value] : header.metadata) {
      pairs += fmt::format("{}{}:{}", pairs.empty() ? "" : ",", JsonText(key), JsonText(value));
    }
    json += fmt::format("\"{}\":{{{}}}", kMetadata, pairs);
  }
  for (const StoredTensor& tensor : header.tensors) {
    json += fmt::format(
        R"({}{}:{{"dtype":"{}","shape":{},"data_offsets":[{},{}]}})",
        json.size() == 1 ? "" : ",",
        JsonText(tensor.name),
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

void LayOut(std::vector<StoredTensor>* tensors) {
  uint64_t begin = 0;
  for (const uint64_t bytes : {8U, 4U, 2U, 1U}) {
    for (StoredTensor& tensor : *tensors) {
      if (ElementBytes(tensor.type) == bytes) {
        tensor.begin = begin;
        begin += tensor.byte_count();
      }
    }
  }
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

}  // namespace ps::checkpoint
