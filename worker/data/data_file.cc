#include "worker/data/data_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <isa-l/igzip_lib.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "ps/base/file.h"
#include "ps/base/unique_fd.h"

namespace ps::worker {
namespace {

constexpr size_t kReadBytesMax = size_t{1} << 20;
constexpr uint64_t kReserveBytesMax = uint64_t{256} << 20;
constexpr size_t kInputBytes = size_t{1} << 17;
constexpr std::array<uint8_t, 2> kGzipMagic = {0x1f, 0x8b};

const char* TextOf(int error) {
  switch (error) {
    case ISAL_INCORRECT_CHECKSUM:
      return "incorrect checksum";
    case ISAL_INVALID_WRAPPER:
    case ISAL_UNSUPPORTED_METHOD:
      return "invalid header";
    case ISAL_INVALID_LOOKBACK:
      return "invalid distance";
    default:
      return "invalid block";
  }
}

}  // namespace

/// The bytes of the file as they are on disk, and where unpacking them stands.
struct DataFile::Input {
  UniqueFd fd;
  std::array<uint8_t, kInputBytes> buffer{};
  std::span<uint8_t> left;  // of the buffer
  bool is_at_end = false;   // of the file
  bool is_packed = false;
  bool is_over = false;  // no member of the packed file is left
  inflate_state state{};

  /// Until `bytes` of the file are here, or all that there are. Requires: they fit into the buffer.
  Status Fill(const std::string& path, size_t bytes) {
    std::copy(left.begin(), left.end(), buffer.begin());
    size_t size = left.size();
    while (size < bytes && !is_at_end) {
      const ssize_t got = ::read(fd.get(), buffer.data() + size, buffer.size() - size);
      if (got < 0 && errno != EINTR) {
        return IoError("cannot read", path);
      }
      is_at_end = got == 0;
      size += static_cast<size_t>(std::max<ssize_t>(got, 0));
    }
    left = std::span(buffer).first(size);
    return Status::Ok();
  }

  /// A gzip file may be several, one after the other. What is no gzip after one is left alone, as
  /// gzip does.
  Status BeginMember(const std::string& path) {
    PS_TRY(Fill(path, kGzipMagic.size()));
    is_over = left.size() < kGzipMagic.size() ||
              !std::equal(kGzipMagic.begin(), kGzipMagic.end(), left.begin());
    isal_inflate_init(&state);
    state.crc_flag = ISAL_GZIP;
    return Status::Ok();
  }
};

DataFile::DataFile(std::string path, std::unique_ptr<Input> input)
    : path_(std::move(path)), input_(std::move(input)) {}

DataFile::DataFile(DataFile&&) noexcept = default;
DataFile& DataFile::operator=(DataFile&&) noexcept = default;
DataFile::~DataFile() = default;

Result<DataFile> DataFile::Open(const std::string& path) {
  auto input = std::make_unique<Input>();
  input->fd = UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!input->fd.is_open()) {
    return errno == ENOENT ? Status::NotFound(fmt::format("{}: no such file", path))
                           : IoError("cannot open", path);
  }
  PS_TRY(input->BeginMember(path));
  input->is_packed = !input->is_over;
  return DataFile(path, std::move(input));
}

Result<size_t> DataFile::Unpack(std::span<uint8_t> out) {
  Input& input = *input_;
  inflate_state& state = input.state;
  while (!input.is_over) {
    if (input.left.empty()) {
      PS_TRY(input.Fill(path_, 1));
    }
    state.next_in = input.left.data();
    state.avail_in = static_cast<uint32_t>(input.left.size());
    state.next_out = out.data();
    state.avail_out = static_cast<uint32_t>(out.size());
    const int error = isal_inflate(&state);
    input.left = input.left.last(state.avail_in);
    const size_t got = out.size() - state.avail_out;
    if (error != ISAL_DECOMP_OK) {
      return Bad(offset_ + got, fmt::format("damaged gzip data: {}", TextOf(error)));
    }
    if (state.block_state == ISAL_BLOCK_FINISH) {
      PS_TRY(input.BeginMember(path_));
    } else if (got == 0 && input.left.empty() && input.is_at_end) {
      return Bad(offset_, "damaged gzip data: unexpected end of file");
    }
    if (got > 0) {
      return got;
    }
  }
  return size_t{0};
}

Result<size_t> DataFile::ReadSome(std::span<uint8_t> out) {
  size_t done = 0;
  while (done < out.size()) {
    const std::span<uint8_t> wanted = out.subspan(done, std::min(out.size() - done, kReadBytesMax));
    size_t got = 0;
    if (input_->is_packed) {
      PS_ASSIGN(got, Unpack(wanted));
    } else {
      if (input_->left.empty()) {
        PS_TRY(input_->Fill(path_, 1));
      }
      got = std::min(wanted.size(), input_->left.size());
      std::copy_n(input_->left.begin(), got, wanted.begin());
      input_->left = input_->left.subspan(got);
    }
    if (got == 0) {
      break;
    }
    done += got;
    offset_ += got;
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
