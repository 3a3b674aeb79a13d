#include "worker/data/data_file.h"

#include <fmt/core.h>
#include <isa-l/igzip_lib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace ps::worker {
namespace {

constexpr size_t kReadBytesMax = size_t{1} << 20;
constexpr uint64_t kReserveBytesMax = uint64_t{256} << 20;
constexpr size_t kBufferBytes = size_t{1} << 17;
constexpr std::array<uint8_t, 2> kGzipMagic{0x1f, 0x8b};  // RFC 1952, 2.3.1

bool BeginsLikeGzip(std::span<const uint8_t> bytes) {
  return bytes.size() >= kGzipMagic.size() &&
         std::equal(kGzipMagic.begin(), kGzipMagic.end(), bytes.begin());
}

std::string_view ReasonOf(int code) {
  switch (code) {
    case ISAL_INVALID_BLOCK:
      return "invalid block";
    case ISAL_INVALID_SYMBOL:
      return "invalid symbol";
    case ISAL_INVALID_LOOKBACK:
      return "a reference to before the beginning";
    case ISAL_INVALID_WRAPPER:
      return "invalid gzip header";
    case ISAL_UNSUPPORTED_METHOD:
      return "unknown compression method";
    case ISAL_INCORRECT_CHECKSUM:
      return "incorrect checksum";
    default:
      return "unknown error";
  }
}

}  // namespace

/// ISA-L's inflate. Its state takes 90 KB, with the last 32 KB of output, which blocks refer to.
class DataFile::Unpacker {
 public:
  Unpacker() { isal_inflate_init(&state_), state_.crc_flag = ISAL_GZIP; }

  /// Unpacks from `in` to `out`, takes from `in` what it used, and says how many bytes came out.
  /// Compares length and checksum where a member ends. Errors: kCorruption, without the place.
  Result<size_t> Step(std::span<const uint8_t>* in, std::span<uint8_t> out) {
    state_.next_in = const_cast<uint8_t*>(in->data());  // it is only read
    state_.avail_in = static_cast<uint32_t>(in->size());
    state_.next_out = out.data();
    state_.avail_out = static_cast<uint32_t>(out.size());
    const int code = isal_inflate(&state_);
    if (code < ISAL_DECOMP_OK || state_.avail_in > in->size()) {
      return Status::Corruption(std::string(ReasonOf(code)));  // what it used is not known then
    }
    *in = in->last(state_.avail_in);
    return out.size() - state_.avail_out;
  }

  bool AtEndOfMember() const { return state_.block_state == ISAL_BLOCK_FINISH; }

  void BeginMember() { isal_inflate_reset(&state_); }

 private:
  inflate_state state_;
};

void DataFile::UnpackerDeleter::operator()(Unpacker* unpacker) const {
  delete unpacker;
}

Result<DataFile> DataFile::Open(const std::string& path, LoadProgress* progress) {
  DataFile opened(path, progress);
  opened.file_.reset(std::fopen(path.c_str(), "rb"));
  if (opened.file_ == nullptr) {
    const int error = errno;
    if (error == ENOENT) {
      return Status::NotFound(fmt::format("{}: no such file", path));
    }
    return Status::Io(fmt::format("{}: {}", path, std::strerror(error)));
  }
  std::setvbuf(opened.file_.get(), nullptr, _IONBF, 0);  // `buffer_` is in its place
  opened.buffer_.resize(kBufferBytes);
  PS_TRY(opened.FillStored(kGzipMagic.size()));
  if (BeginsLikeGzip(opened.stored_)) {
    opened.unpacker_.reset(new Unpacker);
  }
  return opened;
}

Result<size_t> DataFile::ReadStored(std::span<uint8_t> out) {
  const size_t got = std::fread(out.data(), 1, out.size(), file_.get());
  if (got < out.size() && std::ferror(file_.get()) != 0) {
    return Status::Io(fmt::format("{}: byte {}: {}", path_, offset_, std::strerror(errno)));
  }
  if (progress_ != nullptr) {
    PS_TRY(progress_->Advance(got));
  }
  return got;
}

Status DataFile::FillStored(size_t least) {
  if (stored_.size() < least) {
    std::copy(stored_.begin(), stored_.end(), buffer_.begin());
    PS_ASSIGN(const size_t got, ReadStored(std::span(buffer_).subspan(stored_.size())));
    stored_ = std::span(buffer_).first(stored_.size() + got);
  }
  return Status::Ok();
}

Result<size_t> DataFile::Unpack(std::span<uint8_t> out) {
  for (;;) {
    PS_TRY(FillStored(kGzipMagic.size()));
    if (unpacker_->AtEndOfMember()) {
      if (!BeginsLikeGzip(stored_)) {
        return 0;  // the end, or what gzip calls trailing garbage
      }
      unpacker_->BeginMember();
    }
    const size_t stored_bytes = stored_.size();
    const Result<size_t> unpacked = unpacker_->Step(&stored_, out);
    if (!unpacked.ok()) {
      return Bad(offset_, fmt::format("damaged gzip data: {}", unpacked.status().message()));
    }
    if (*unpacked > 0) {
      return *unpacked;
    }
    if (stored_.size() == stored_bytes && !unpacker_->AtEndOfMember()) {
      return Bad(offset_, "damaged gzip data: unexpected end of file");
    }
  }
}

Result<size_t> DataFile::ReadPlain(std::span<uint8_t> out) {
  if (stored_.empty() && out.size() >= buffer_.size()) {
    return ReadStored(out);
  }
  PS_TRY(FillStored(1));
  const size_t part = std::min(out.size(), stored_.size());
  std::copy_n(stored_.begin(), part, out.begin());
  stored_ = stored_.subspan(part);
  return part;
}

Result<size_t> DataFile::ReadSome(std::span<uint8_t> out) {
  size_t done = 0;
  while (done < out.size()) {
    const auto rest = out.subspan(done, std::min(out.size() - done, kReadBytesMax));
    PS_ASSIGN(const size_t got, unpacker_ == nullptr ? ReadPlain(rest) : Unpack(rest));
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
