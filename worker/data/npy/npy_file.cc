#include "worker/data/npy/npy_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <optional>
#include <utility>

#include "ps/base/check.h"
#include "ps/base/text.h"

namespace ps::worker {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kHeaderBytesMax = 65536;
constexpr uint64_t kElementsMax = uint64_t{1} << 40;

struct TypeRow {
  ElementType type;
  std::string_view descr;
  std::string_view name;
  size_t size;
};

constexpr std::array<TypeRow, 8> kTypes = {
    {{ElementType::kU8, "|u1", "uint8", 1},
     {ElementType::kU16, "<u2", "uint16", 2},
     {ElementType::kU32, "<u4", "uint32", 4},
     {ElementType::kI8, "|i1", "int8", 1},
     {ElementType::kI16, "<i2", "int16", 2},
     {ElementType::kI32, "<i4", "int32", 4},
     {ElementType::kI64, "<i8", "int64", 8},
     {ElementType::kF32, "<f4", "float32", 4}}};

const TypeRow& RowOf(ElementType type) {
  return kTypes[static_cast<size_t>(type)];
}

template <typename T>
T LittleEndian(const uint8_t* bytes) {
  T value{};
  std::memcpy(&value, bytes, sizeof(value));  // every machine that we build for is little-endian
  return value;
}

/// Reads the header's text: a Python dictionary of three entries, in any order.
class HeaderReader {
 public:
  HeaderReader(const std::string& path, NpyFile::Use use, std::string_view text, size_t offset)
      : path_(path), use_(use), text_(text), offset_(offset) {}

  Status Read() {
    PS_TRY(Expect('{'));
    while (!Take('}')) {
      PS_ASSIGN(const std::string_view key, Quoted());
      PS_TRY(Expect(':'));
      PS_TRY(Entry(key));
      if (!Take(',')) {
        PS_TRY(Expect('}'));
        break;
      }
    }
    SkipSpace();
    if (at_ != text_.size()) {
      return Bad("the header should end here");
    }
    if (!type.has_value() || !has_order_ || shape.empty()) {
      return Bad("the header lacks one of descr, fortran_order, shape");
    }
    return Status::Ok();
  }

  std::optional<ElementType> type;
  std::vector<int64_t> shape;

 private:
  Status Entry(std::string_view key) {
    if (key == "descr" && !type.has_value()) {
      return Descr();
    }
    if (key == "fortran_order" && !has_order_) {
      has_order_ = true;
      if (TakeWord("False")) {
        return Status::Ok();
      }
      return TakeWord("True")
                 ? Bad("its elements are column by column; save numpy.ascontiguousarray(array)")
                 : Bad("fortran_order is neither False nor True");
    }
    if (key == "shape" && shape.empty()) {
      return Dimensions();
    }
    return Bad("'" + Printable(key.substr(0, 40)) + "' is unknown here or comes twice");
  }

  Status Descr() {
    SkipSpace();
    if (at_ < text_.size() && text_[at_] != '\'') {
      return Bad("elements of several fields; save one plain array a file");
    }
    PS_ASSIGN(const std::string_view descr, Quoted());
    for (const TypeRow& row : kTypes) {
      if (descr == row.descr) {
        type = row.type;
        return Status::Ok();
      }
    }
    return Bad(
        "elements of type '" + Printable(descr.substr(0, 20)) + "'; " +
        (use_ == NpyFile::Use::kLabels
             ? "labels are whole numbers, so save labels.astype(numpy.int64)"
         : use_ == NpyFile::Use::kTargets
             ? "numbers to learn are float32, so save labels.astype(numpy.float32)"
             : "allowed: uint8 for bytes of images, float32 for other values, int64 for tokens, so "
               "save inputs.astype(numpy.float32) or another of them"));
  }

  Status Dimensions() {
    PS_TRY(Expect('('));
    uint64_t elements = 1;
    while (!Take(')')) {
      PS_ASSIGN(const int64_t size, Number());
      if (size < 1) {
        return Bad("a dimension of 0; every dimension is at least 1");
      }
      if (shape.size() == NpyFile::kDimsMax) {
        return Bad(fmt::format("more than {} dimensions", NpyFile::kDimsMax));
      }
      if (elements > kElementsMax / static_cast<uint64_t>(size)) {
        return Bad(fmt::format("more than {} elements", kElementsMax));
      }
      elements *= static_cast<uint64_t>(size);
      shape.push_back(size);
      if (!Take(',')) {
        PS_TRY(Expect(')'));
        break;
      }
    }
    return shape.empty() ? Bad("a single number; its first dimension has to be the samples")
                         : Status::Ok();
  }

  Result<int64_t> Number() {
    SkipSpace();
    int64_t value = 0;
    const char* const begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (error != std::errc() || value < 0) {
      return Bad("a whole number should be here");
    }
    at_ += static_cast<size_t>(end - begin);
    return value;
  }

  Result<std::string_view> Quoted() {
    PS_TRY(Expect('\''));
    const size_t end = text_.find('\'', at_);
    if (end == std::string_view::npos) {
      return Bad("a quote that is not closed");
    }
    const std::string_view word = text_.substr(at_, end - at_);
    at_ = end + 1;
    return word;
  }

  void SkipSpace() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) {
      ++at_;
    }
  }

  bool Take(char wanted) {
    SkipSpace();
    const bool is_there = at_ < text_.size() && text_[at_] == wanted;
    at_ += is_there ? 1 : 0;
    return is_there;
  }

  bool TakeWord(std::string_view word) {
    SkipSpace();
    const bool is_there = text_.substr(at_).starts_with(word);
    at_ += is_there ? word.size() : 0;
    return is_there;
  }

  Status Expect(char wanted) {
    return Take(wanted) ? Status::Ok() : Bad(fmt::format("'{}' should be here", wanted));
  }

  Status Bad(const std::string& message) const {
    return Status::Corruption(fmt::format("{}: byte {}: {}", path_, offset_ + at_, message));
  }

  const std::string& path_;
  const NpyFile::Use use_;
  const std::string_view text_;
  const size_t offset_;  // of the text in the file
  size_t at_ = 0;
  bool has_order_ = false;
};

}  // namespace

std::string_view ElementTypeName(ElementType type) {
  return RowOf(type).name;
}

std::string_view ElementDescr(ElementType type) {
  return RowOf(type).descr;
}

size_t ElementSize(ElementType type) {
  return RowOf(type).size;
}

NpyFile::NpyFile(MappedFile file, ElementType type, std::vector<int64_t> shape, size_t offset)
    : file_(std::move(file)), type_(type), shape_(std::move(shape)), offset_(offset) {
  for (size_t i = 1; i < shape_.size(); ++i) {
    row_size_ *= static_cast<uint64_t>(shape_[i]);
  }
}

Result<NpyFile> NpyFile::Open(const std::string& path, Use use) {
  PS_ASSIGN(MappedFile file, MappedFile::Open(path));
  const std::span<const uint8_t> bytes = file.bytes();
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto bad = [&](size_t at, const std::string& message) {
    return Status::Corruption(fmt::format("{}: byte {}: {}", path, at, message));
  };
  if (!text.starts_with(kMagic)) {
    return bad(0, "not an array of numpy; write it with numpy.save(path, array)");
  }
  constexpr size_t kVersionAt = kMagic.size();
  if (bytes.size() < kVersionAt + 6) {
    return bad(bytes.size(), "the file ends here, within its header");
  }
  const uint8_t version = bytes[kVersionAt];
  if (version < 1 || version > 3) {
    return bad(kVersionAt, fmt::format("version {} of the format; known are 1 to 3", version));
  }
  const uint8_t* length = bytes.data() + kVersionAt + 2;
  const size_t begin = kVersionAt + (version == 1 ? 4 : 6);
  const size_t header =
      version == 1 ? LittleEndian<uint16_t>(length) : LittleEndian<uint32_t>(length);
  if (header > kHeaderBytesMax || header > bytes.size() - begin) {
    return bad(
        kVersionAt + 2, fmt::format("a header of {} bytes does not fit in the file", header));
  }
  HeaderReader reader(path, use, text.substr(begin, header), begin);
  PS_TRY(reader.Read());
  NpyFile array(std::move(file), *reader.type, std::move(reader.shape), begin + header);
  const uint64_t expected = array.rows() * array.row_size() * RowOf(array.type()).size;
  if (array.data().size() != expected) {
    return bad(
        begin + header,
        fmt::format(
            "{} bytes of elements follow, and its shape asks for {}; the file is damaged or still "
            "being written",
            array.data().size(),
            expected));
  }
  return array;
}

int64_t NpyFile::WholeAt(uint64_t i) const {
  const uint8_t* at = data().data() + i * RowOf(type_).size;
  switch (type_) {
    case ElementType::kU8:
      return *at;
    case ElementType::kU16:
      return LittleEndian<uint16_t>(at);
    case ElementType::kU32:
      return LittleEndian<uint32_t>(at);
    case ElementType::kI8:
      return static_cast<int8_t>(*at);
    case ElementType::kI16:
      return LittleEndian<int16_t>(at);
    case ElementType::kI32:
      return LittleEndian<int32_t>(at);
    case ElementType::kI64:
      return LittleEndian<int64_t>(at);
    case ElementType::kF32:
      break;
  }
  PS_CHECK(false) << "floats are no whole numbers";
  return 0;
}

float NpyFile::FloatAt(uint64_t i) const {
  PS_CHECK(type_ == ElementType::kF32);
  return LittleEndian<float>(data().data() + i * sizeof(float));
}

Status NpyFile::BadElement(uint64_t i, std::string_view message) const {
  return Status::Corruption(
      fmt::format("{}: byte {}: {}", path(), offset_ + i * RowOf(type_).size, message));
}

}  // namespace ps::worker
