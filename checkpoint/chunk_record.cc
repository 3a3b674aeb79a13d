#include "checkpoint/chunk_record.h"

#include <algorithm>

#include "checkpoint/envelope.h"

namespace ps::checkpoint {
namespace {

bool IsPossible(const ChunkHead& head) {
  bool has_delta = false;
  for (size_t i = 0; i < kBuffersMax; ++i) {
    if (head.encodings[i] > Encoding::kBf16 ||
        (i >= head.buffer_count && head.stored_bytes[i] != 0)) {
      return false;
    }
    has_delta = has_delta || head.encodings[i] == Encoding::kDelta;
  }
  return head.buffer_count >= 1 && head.buffer_count <= kBuffersMax && head.element_count >= 1 &&
         head.element_count <= kChunkElementsMax && has_delta == (head.previous != 0) &&
         has_delta == (head.depth != 0) && head.previous < head.written;
}

}  // namespace

std::vector<std::byte> EncodeChunkHead(const ChunkHead& head) {
  ByteWriter out;
  out.Reserve(kChunkHeadBytes);
  const bool has_bf16 = std::ranges::find(head.encodings, Encoding::kBf16) != head.encodings.end();
  PutEnvelope(&out, RecordKind::kChunk, head.written, has_bf16 ? 2 : 1);
  out.Put(head.key.value);
  out.Put(head.version);
  out.Put(head.previous);
  out.Put(head.element_count);
  out.Put(head.crc);
  out.Put(static_cast<uint16_t>(head.buffer_count));
  out.Put(static_cast<uint16_t>(head.depth));
  for (const Encoding encoding : head.encodings) {
    out.Put(static_cast<uint8_t>(encoding));
  }
  out.Put(uint8_t{0});
  for (const uint32_t bytes : head.stored_bytes) {
    out.Put(bytes);
  }
  out.Put(uint32_t{0});
  SealEnvelope(&out);
  return std::move(out).Take();
}

Result<ChunkView> ViewChunkRecord(
    ChunkKey key, CheckpointId written, std::span<const std::byte> record) {
  if (record.size() < kChunkHeadBytes) {
    return Status::Corruption("its record is cut off");
  }
  PS_ASSIGN(
      const std::span<const std::byte> body,
      OpenEnvelope(record.first(kChunkHeadBytes), RecordKind::kChunk, written));
  ByteReader in(body);
  ChunkView view;
  ChunkHead& head = view.head;
  head.key = ChunkKey(in.Get<uint64_t>());
  head.written = written;
  head.version = in.Get<uint64_t>();
  head.previous = in.Get<uint64_t>();
  head.element_count = in.Get<uint32_t>();
  head.crc = in.Get<uint32_t>();
  head.buffer_count = in.Get<uint16_t>();
  head.depth = in.Get<uint16_t>();
  for (Encoding& encoding : head.encodings) {
    encoding = static_cast<Encoding>(in.Get<uint8_t>());
  }
  in.GetBytes(1);
  for (uint32_t& bytes : head.stored_bytes) {
    bytes = in.Get<uint32_t>();
  }
  if (head.key != key || !IsPossible(head)) {
    return Status::Corruption("its record contradicts itself");
  }
  ByteReader data(record.subspan(kChunkHeadBytes));
  for (size_t i = 0; i < head.buffer_count; ++i) {
    view.stored[i] = data.GetBytes(head.stored_bytes[i]);
  }
  if (!data.is_at_end()) {
    return Status::Corruption("its record is longer or shorter than it says");
  }
  return view;
}

}  // namespace ps::checkpoint
