#include "worker/data/data_file.h"

#include <fmt/core.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace ps::worker {
namespace {

constexpr size_t kReadBytesMax = size_t{1} << 20;
constexpr uint64_t kReserveBytesMax = uint64_t{256} << 20;
constexpr unsigned kUnpackBufferBytes = 1U << 17;

}  // namespace

void DataFile::Closer::operator()(gzFile_s* file) const {
  gzclose_r(file);
}

Result<DataFile> DataFile::Open(const std::string& path) {
  errno = 0;
  gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) {
    const int error = errno;
    if (error == ENOENT) {
      return Status::NotFound(fmt::format("{}: no such file", path));
    }
    return Status::Io(
        fmt::format("{}: {}", path, error == 0 ? "out of memory" : std::strerror(error)));
  }
  gzbuffer(file, kUnpackBufferBytes);
  return DataFile(path, file);
}

Result<size_t> DataFile::ReadSome(std::span<uint8_t> out) {
  size_t done = 0;
  while (done < out.size()) {
    const size_t wanted = std::min(out.size() - done, kReadBytesMax);
    const int got = gzread(file_.get(), out.data() + done, static_cast<unsigned>(wanted));
    if (got < 0) {
      int code = 0;
      const std::string reason = gzerror(file_.get(), &code);
      if (code == Z_ERRNO) {
        return Status::Io(fmt::format("{}: byte {}: {}", path_, offset_, reason));
      }
      return Bad(offset_, "damaged gzip data: " + reason);
    }
    if (got == 0) {
      int code = 0;
      const std::string reason = gzerror(file_.get(), &code);
      if (code == Z_BUF_ERROR) {  // the file was cut
        return Bad(offset_, "damaged gzip data: " + reason);
      }
      break;
    }
    done += static_cast<size_t>(got);
    offset_ += static_cast<uint64_t>(got);
  }
  return done;
}

Status DataFile::Read(std::span<uint8_t> out) {
  const uint64_t begin = offset_;
  PS_ASSIGN(const size_t got, ReadSome(out));
  if (got < out.size()) {
    return Bad(
        offset_,
        fmt::format("the file ends here; {} bytes were expected from byte {}", out.size(), begin));
  }
  return Status::Ok();
}

Result<uint32_t> DataFile::ReadBigEndian32() {
  std::array<uint8_t, 4> bytes{};
  PS_TRY(Read(bytes));
  uint32_t value = 0;
  for (const uint8_t byte : bytes) {
    value = (value << 8) | byte;
  }
  return value;
}

Status DataFile::Append(uint64_t size_bytes, std::vector<uint8_t>* out) {
  // Memory that is reserved and not written costs addresses alone.
  out->reserve(out->size() + static_cast<size_t>(std::min(size_bytes, kReserveBytesMax)));
  uint64_t left = size_bytes;
  while (left > 0) {
    const auto part = static_cast<size_t>(std::min<uint64_t>(left, kReadBytesMax));
    const size_t begin = out->size();
    out->resize(begin + part);
    PS_TRY(Read(std::span(*out).subspan(begin)));
    left -= part;
  }
  return Status::Ok();
}

Result<bool> DataFile::ReadByteUnlessAtEnd(uint8_t* byte) {
  PS_ASSIGN(const size_t got, ReadSome({byte, 1}));
  return got == 1;
}

Status DataFile::Bad(uint64_t offset, std::string_view message) const {
  return Status::Corruption(fmt::format("{}: byte {}: {}", path_, offset, message));
}

}  // namespace ps::worker
