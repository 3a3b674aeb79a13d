#include "ps/net/internal/frame_reader.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "ps/base/check.h"
#include "ps/base/crc32c.h"

namespace ps::net {
namespace {

constexpr size_t kInBytes = size_t{64} << 10;
// From this size on the rest of a payload is received into its final memory; a smaller one is
// copied there, so that one system call can bring many frames.
constexpr size_t kDirectBytes = size_t{16} << 10;
// Behind such a rest only the next header is read ahead, because payload that is read ahead has to
// be copied.
constexpr size_t kReadAheadBytes = 4096;
// A payload is received in parts that stay in the cache until their checksum is taken.
constexpr size_t kPartBytes = size_t{256} << 10;

}  // namespace

FrameReader::FrameReader(const proto::FrameLimits& limits, std::shared_ptr<BufferPool> pool)
    : pool_(std::move(pool)), limits_(limits), in_(kInBytes) {}

Status FrameReader::ReadHeader() {
  const std::span<const std::byte> bytes(in_.data() + begin_, proto::kFrameHeaderBytes);
  PS_ASSIGN(header_, proto::DecodeFrameHeader(bytes.first<proto::kFrameHeaderBytes>(), limits_));
  begin_ += proto::kFrameHeaderBytes;
  flatbuffer_.resize(header_.header_bytes + header_.padding_bytes());
  filled_ = 0;
  stage_ = Stage::kFlatBuffer;
  return Status::Ok();
}

std::span<std::byte> FrameReader::Rest() {
  const std::span<std::byte> target = stage_ == Stage::kPayload
                                          ? payload_->bytes().first(header_.payload_bytes)
                                          : std::span<std::byte>(flatbuffer_);
  return target.subspan(filled_);
}

void FrameReader::StartPayload() {
  stage_ = Stage::kPayload;
  filled_ = 0;
  payload_ = pool_->Take(header_.payload_bytes);
  checked_ = 0;
  crc_ = Crc32c(std::span<const std::byte>(flatbuffer_).first(header_.header_bytes));
}

void FrameReader::CheckPayload() {
  const std::span<const std::byte> bytes = std::as_const(*payload_).bytes();
  crc_ = Crc32c(bytes.subspan(checked_, filled_ - checked_), crc_);
  checked_ = filled_;
}

Result<std::optional<FrameReader::Frame>> FrameReader::Next() {
  if (stage_ == Stage::kHeader) {
    if (end_ - begin_ < proto::kFrameHeaderBytes) {
      return std::optional<Frame>();
    }
    PS_TRY(ReadHeader());
  }
  while (true) {
    const std::span<std::byte> rest = Rest();
    const size_t copied = std::min(rest.size(), end_ - begin_);
    if (copied > 0) {
      std::memcpy(rest.data(), in_.data() + begin_, copied);
      begin_ += copied;
      filled_ += copied;
    }
    if (stage_ == Stage::kPayload) {
      CheckPayload();
    }
    if (copied < rest.size()) {
      return std::optional<Frame>();
    }
    if (stage_ == Stage::kPayload || header_.payload_bytes == 0) {
      break;
    }
    StartPayload();
  }
  const std::span<const std::byte> flatbuffer(flatbuffer_.data(), header_.header_bytes);
  proto::Payload payload;
  if (payload_ != nullptr) {
    payload = proto::Payload::Own(std::move(payload_), header_.payload_bytes);
    payload_ = nullptr;
  } else {
    crc_ = Crc32c(flatbuffer);
  }
  PS_ASSIGN(
      proto::Message message, proto::DecodeMessage(header_, flatbuffer, std::move(payload), crc_));
  stage_ = Stage::kHeader;
  return std::optional<Frame>(Frame{header_.request_id, std::move(message)});
}

size_t FrameReader::Targets(std::array<iovec, 2>& targets) {
  if (stage_ == Stage::kHeader) {
    const size_t unused = end_ - begin_;
    if (begin_ > 0 && unused > 0) {
      std::memmove(in_.data(), in_.data() + begin_, unused);
    }
    begin_ = 0;
    end_ = unused;
    targets[0] = {in_.data() + end_, kInBytes - end_};
    return 1;
  }
  PS_CHECK(begin_ == end_) << "bytes read ahead while a frame is incomplete";
  begin_ = end_ = 0;
  const std::span<std::byte> rest = Rest();
  if (rest.size() < kDirectBytes) {
    targets[0] = {in_.data(), kInBytes};
    return 1;
  }
  if (rest.size() > kPartBytes) {
    targets[0] = {rest.data(), kPartBytes};
    return 1;
  }
  targets[0] = {rest.data(), rest.size()};
  targets[1] = {in_.data(), kReadAheadBytes};
  return 2;
}

void FrameReader::Filled(size_t bytes) {
  if (stage_ != Stage::kHeader) {
    const size_t rest = Rest().size();
    if (rest >= kDirectBytes) {
      const size_t direct = std::min(bytes, rest);
      filled_ += direct;
      bytes -= direct;
    }
  }
  end_ += bytes;
}

}  // namespace ps::net
