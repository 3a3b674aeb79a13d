#include "checkpoint/model/safetensors.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <limits>
#include <tuple>
#include <utility>

#include "checkpoint/model/half.h"
#include "ps/base/check.h"
#include "ps/base/durable_file.h"
#include "ps/base/file.h"
#include "ps/base/text.h"

namespace ps::checkpoint {
namespace {

static_assert(std::endian::native == std::endian::little, "elements are stored little-endian");

/// Elements that are converted at a time.
constexpr size_t kPieceElements = 8192;

Status WriteAt(int fd, std::span<const std::byte> bytes, uint64_t at, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n <= 0) {
      return IoError("cannot write", path);
    }
    bytes = bytes.subspan(static_cast<size_t>(n));
    at += static_cast<uint64_t>(n);
  }
  return Status::Ok();
}

Status ReadAt(int fd, std::span<std::byte> bytes, uint64_t at, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t n = ::pread(fd, bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n < 0) {
      return IoError("cannot read", path);
    }
    if (n == 0) {
      return Status::Corruption(fmt::format("{} ends at byte {}", path, at));
    }
    bytes = bytes.subspan(static_cast<size_t>(n));
    at += static_cast<uint64_t>(n);
  }
  return Status::Ok();
}

template <typename Stored, typename Convert>
Status WriteConverted(
    int fd,
    std::span<const float> values,
    uint64_t at,
    const std::string& path,
    const Convert& convert) {
  std::array<Stored, kPieceElements> piece;
  while (!values.empty()) {
    const size_t n = std::min(values.size(), piece.size());
    std::transform(
        values.begin(), values.begin() + static_cast<int64_t>(n), piece.begin(), convert);
    PS_TRY(WriteAt(fd, std::as_bytes(std::span(piece).first(n)), at, path));
    values = values.subspan(n);
    at += n * sizeof(Stored);
  }
  return Status::Ok();
}

template <typename Stored, typename Convert>
Status ReadConverted(
    int fd, std::span<float> out, uint64_t at, const std::string& path, const Convert& convert) {
  std::array<Stored, kPieceElements> piece;
  while (!out.empty()) {
    const auto stored = std::span(piece).first(std::min(out.size(), piece.size()));
    PS_TRY(ReadAt(fd, std::as_writable_bytes(stored), at, path));
    std::transform(stored.begin(), stored.end(), out.begin(), convert);
    out = out.subspan(stored.size());
    at += stored.size_bytes();
  }
  return Status::Ok();
}

/// Errors: also kUnsupported: the type is no float.
Status WriteValues(
    int fd, ElementType type, std::span<const float> values, uint64_t at, const std::string& path) {
  switch (type) {
    case ElementType::kF64:
      return WriteConverted<double>(fd, values, at, path, [](float v) { return double{v}; });
    case ElementType::kF32:
      return WriteAt(fd, std::as_bytes(values), at, path);
    case ElementType::kF16:
      return WriteConverted<uint16_t>(fd, values, at, path, FloatToHalf);
    case ElementType::kBf16:
      return WriteConverted<uint16_t>(fd, values, at, path, FloatToBf16);
    default:
      break;
  }
  return Status::Unsupported(
      fmt::format("{}: values are not written as {}", path, ElementTypeName(type)));
}

/// Values from here on are infinite in a file of this type.
float LimitOf(ElementType type) {
  switch (type) {
    case ElementType::kF16:
      return 65520;
    case ElementType::kBf16:
      return std::bit_cast<float>(0x7F7F8000U);
    default:
      return std::numeric_limits<float>::infinity();
  }
}

/// Whether a model may have these values, which are those of a tensor from element `begin` on. relu
/// hides a NaN and comparisons are false for it, so it is found here or nowhere.
Status CheckFinite(
    const StoredTensor& tensor, int64_t begin, std::span<const float> values, float limit) {
  bool are_finite = true;  // without a branch: this runs over every value of a model
  for (const float value : values) {
    are_finite &= std::abs(value) < limit;  // false for NaN
  }
  if (are_finite) {
    return Status::Ok();
  }
  const auto wrong =
      std::ranges::find_if(values, [limit](float value) { return !(std::abs(value) < limit); });
  const std::string what = std::isnan(*wrong)   ? "NaN"
                           : std::isinf(*wrong) ? "infinite"
                                                : fmt::format("{}, too large for its type", *wrong);
  return Status::Corruption(fmt::format(
      "element {} of tensor \"{}\" is {}",
      begin + (wrong - values.begin()),
      Printable(tensor.name),
      what));
}

void CheckRange(const StoredTensor& tensor, int64_t begin, size_t count) {
  PS_CHECK(
      begin >= 0 && begin <= tensor.element_count &&
      count <= static_cast<uint64_t>(tensor.element_count - begin))
      << "elements " << begin << " and " << count << " more of " << tensor.element_count;
}

Result<SafetensorsHeader> ReadHeader(int fd, const std::string& path, uint64_t* data_at) {
  struct stat file {};

  if (::fstat(fd, &file) != 0) {
    return IoError("cannot read", path);
  }
  const auto size = static_cast<uint64_t>(file.st_size);
  uint64_t length = 0;
  if (size < kSafetensorsLengthBytes) {
    return Status::Corruption(fmt::format("{} bytes are too few for a safetensors file", size));
  }
  PS_TRY(ReadAt(fd, std::as_writable_bytes(std::span(&length, 1)), 0, path));
  if (length > size - kSafetensorsLengthBytes || length > kSafetensorsHeaderMax) {
    return Status::Corruption(fmt::format(
        "no safetensors file: its header is to have {} bytes, the file has {}", length, size));
  }
  std::string json(length, '\0');
  PS_TRY(ReadAt(fd, std::as_writable_bytes(std::span(json)), kSafetensorsLengthBytes, path));
  *data_at = kSafetensorsLengthBytes + length;
  return ParseSafetensorsHeader(json, size - *data_at);
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(std::string path, std::vector<StoredTensor> tensors)
    : path_(std::move(path)),
      draft_path_(path_ + ".draft"),
      tensors_(std::move(tensors)),
      written_(tensors_.size(), 0) {}

Result<SafetensorsWriter> SafetensorsWriter::Create(
    const std::string& path,
    std::span<const TensorSpec> tensors,
    ElementType type,
    std::map<std::string, std::string> metadata) {
  return Create(path, HeaderOf(tensors, type, {}).tensors, std::move(metadata));
}

Result<SafetensorsWriter> SafetensorsWriter::Create(
    const std::string& path,
    std::vector<StoredTensor> tensors,
    std::map<std::string, std::string> metadata) {
  LayOut(&tensors);
  SafetensorsHeader header;
  header.metadata = std::move(metadata);
  header.tensors = tensors;
  std::ranges::sort(header.tensors, {}, [](const StoredTensor& tensor) {
    return std::tuple(tensor.begin, tensor.byte_count());
  });
  SafetensorsWriter writer(path, std::move(tensors));
  const std::string head = PrintSafetensorsHeader(header);
  writer.data_at_ = head.size();
  writer.fd_ =
      UniqueFd(::open(writer.draft_path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!writer.fd_.is_open()) {
    return IoError("cannot write", writer.draft_path_);
  }
  PS_TRY(WriteAt(writer.fd_.get(), std::as_bytes(std::span(head)), 0, writer.draft_path_));
  return writer;
}

SafetensorsWriter::~SafetensorsWriter() {
  if (fd_.is_open()) {
    ::unlink(draft_path_.c_str());
  }
}

Status SafetensorsWriter::Write(size_t tensor, int64_t begin, std::span<const float> values) {
  PS_CHECK(tensor < tensors_.size()) << "tensor " << tensor;
  const StoredTensor& stored = tensors_[tensor];
  CheckRange(stored, begin, values.size());
  PS_TRY(
      CheckFinite(stored, begin, values, LimitOf(stored.type)).Annotate(path_ + " is not written"));
  const uint64_t at =
      data_at_ + stored.begin + static_cast<uint64_t>(begin) * ElementBytes(stored.type);
  PS_TRY(WriteValues(fd_.get(), stored.type, values, at, draft_path_));
  written_[tensor] += values.size() * ElementBytes(stored.type);
  return Status::Ok();
}

Status SafetensorsWriter::WriteBytes(
    size_t tensor, uint64_t begin, std::span<const std::byte> bytes) {
  PS_CHECK(tensor < tensors_.size()) << "tensor " << tensor;
  const StoredTensor& stored = tensors_[tensor];
  PS_CHECK(begin <= stored.byte_count() && bytes.size() <= stored.byte_count() - begin)
      << "bytes " << begin << " and " << bytes.size() << " more of " << stored.byte_count();
  written_[tensor] += bytes.size();
  return WriteAt(fd_.get(), bytes, data_at_ + stored.begin + begin, draft_path_);
}

Status SafetensorsWriter::Finish() {
  for (size_t i = 0; i < written_.size(); ++i) {
    const StoredTensor& tensor = tensors_[i];
    if (written_[i] != tensor.byte_count()) {
      return Status::InvalidArgument(fmt::format(
          "{}: {} of {} elements of tensor \"{}\" were written",
          path_,
          written_[i] / ElementBytes(tensor.type),
          tensor.element_count,
          Printable(tensor.name)));
    }
  }
  if (::fsync(fd_.get()) != 0) {
    return IoError("cannot write", draft_path_);
  }
  fd_.Reset();
  return MoveIntoPlace(draft_path_, path_);
}

Result<SafetensorsReader> SafetensorsReader::Open(const std::string& path) {
  SafetensorsReader reader;
  reader.path_ = path;
  reader.fd_ = UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!reader.fd_.is_open()) {
    return errno == ENOENT ? Status::NotFound(fmt::format("no file {}", path))
                           : IoError("cannot read", path);
  }
  PS_ASSIGN(reader.header_, ReadHeader(reader.fd_.get(), path, &reader.data_at_).Annotate(path));
  return reader;
}

Status SafetensorsReader::Read(
    const StoredTensor& tensor, int64_t begin, std::span<float> out) const {
  PS_TRY(ReadValues(tensor, begin, out));
  return CheckFinite(tensor, begin, out, LimitOf(ElementType::kF32)).Annotate(path_);
}

Status SafetensorsReader::ReadValues(
    const StoredTensor& tensor, int64_t begin, std::span<float> out) const {
  CheckRange(tensor, begin, out.size());
  const uint64_t at =
      data_at_ + tensor.begin + static_cast<uint64_t>(begin) * ElementBytes(tensor.type);
  const int fd = fd_.get();
  switch (tensor.type) {
    case ElementType::kF64:
      return ReadConverted<double>(
          fd, out, at, path_, [](double v) { return static_cast<float>(v); });
    case ElementType::kF32:
      return ReadAt(fd, std::as_writable_bytes(out), at, path_);
    case ElementType::kF16:
      return ReadConverted<uint16_t>(fd, out, at, path_, HalfToFloat);
    case ElementType::kBf16:
      return ReadConverted<uint16_t>(fd, out, at, path_, Bf16ToFloat);
    default:
      break;
  }
  return Status::Unsupported(fmt::format(
      "tensor \"{}\" has elements of type {}",
      Printable(tensor.name),
      ElementTypeName(tensor.type)));
}

Status SafetensorsReader::ReadBytes(
    const StoredTensor& tensor, uint64_t begin, std::span<std::byte> out) const {
  PS_CHECK(begin <= tensor.byte_count() && out.size() <= tensor.byte_count() - begin)
      << "bytes " << begin << " and " << out.size() << " more of " << tensor.byte_count();
  return ReadAt(fd_.get(), out, data_at_ + tensor.begin + begin, path_);
}

}  // namespace ps::checkpoint
