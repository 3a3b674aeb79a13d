#include "ps/net/internal/send_queue.h"

#include <cstring>
#include <memory>
#include <utility>

#include "ps/base/check.h"

namespace ps::net {

void SendQueue::Push(proto::EncodedMessage frame) {
  bytes_ += frame.size();
  frames_.push_back(std::move(frame));
}

std::span<const std::byte> SendQueue::PartOf(const proto::EncodedMessage& frame, size_t part) {
  return part == 0 ? std::span<const std::byte>(frame.head) : frame.payload.parts[part - 1];
}

size_t SendQueue::Gather(std::span<iovec> parts) {
  size_t count = 0;
  uint64_t gathered_bytes = 0;
  size_t part = part_;
  size_t offset = part_offset_;
  for (proto::EncodedMessage& frame : frames_) {
    if (!frame.is_sealed && gathered_bytes >= kSealBytes) {
      return count;
    }
    frame.Seal();
    for (; part < PartCount(frame); ++part) {
      if (count == parts.size()) {
        return count;
      }
      const std::span<const std::byte> bytes = PartOf(frame, part).subspan(offset);
      offset = 0;
      if (!bytes.empty()) {
        // iovec is shared with reading and so not const; the kernel only reads here.
        parts[count++] = {const_cast<std::byte*>(bytes.data()), bytes.size()};
        gathered_bytes += bytes.size();
      }
    }
    part = 0;
  }
  return count;
}

size_t SendQueue::Sent(size_t bytes) {
  PS_CHECK(bytes <= bytes_) << bytes << " sent of " << bytes_;
  bytes_ -= bytes;
  size_t completed = 0;
  while (!frames_.empty()) {
    const size_t rest = PartOf(frames_.front(), part_).size() - part_offset_;
    if (bytes < rest) {
      part_offset_ += bytes;
      break;
    }
    bytes -= rest;
    part_offset_ = 0;
    if (++part_ == PartCount(frames_.front())) {
      frames_.pop_front();
      part_ = 0;
      ++completed;
    }
  }
  return completed;
}

void SendQueue::KeepBorrowed(BufferPool& pool) {
  if (frames_.empty()) {
    return;
  }
  proto::EncodedMessage& frame = frames_.back();
  if (frame.payload.owner != nullptr || frame.payload.parts.empty()) {
    return;
  }
  // Only the front frame can be sent in part.
  const bool is_front = frames_.size() == 1;
  const size_t sent_parts = is_front && part_ > 0 ? part_ - 1 : 0;
  const size_t sent_offset = is_front && part_ > 0 ? part_offset_ : 0;
  size_t unsent_bytes = 0;
  for (size_t i = sent_parts; i < frame.payload.parts.size(); ++i) {
    unsent_bytes += frame.payload.parts[i].size();
  }
  unsent_bytes -= sent_offset;
  const std::shared_ptr<Buffer> copy = pool.Take(unsent_bytes);
  std::byte* out = copy->data();
  for (size_t i = sent_parts; i < frame.payload.parts.size(); ++i) {
    const auto bytes = frame.payload.parts[i].subspan(i == sent_parts ? sent_offset : 0);
    if (!bytes.empty()) {
      std::memcpy(out, bytes.data(), bytes.size());
      out += bytes.size();
    }
  }
  frame.payload = proto::Payload::Own(copy, unsent_bytes);
  if (is_front && part_ > 0) {
    part_ = 1;
    part_offset_ = 0;
  }
}

void SendQueue::Clear() {
  frames_.clear();
  bytes_ = 0;
  part_ = 0;
  part_offset_ = 0;
}

}  // namespace ps::net
