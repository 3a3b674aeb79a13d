#include "checkpoint/part.h"

#include "checkpoint/envelope.h"
#include "ps/base/check.h"

namespace ps::checkpoint {
namespace {

constexpr size_t kRefBytes = 48;

void PutRef(ByteWriter* out, const ChunkRef& ref) {
  out->Put(ref.key.value);
  out->Put(ref.version);
  out->Put(ref.written);
  out->Put(ref.base);
  out->Put(ref.element_count);
  out->Put(ref.crc);
  out->Put(ref.stored_bytes);
  out->Put(static_cast<uint16_t>(ref.depth));
  out->Put(static_cast<uint16_t>(ref.slot_count));
}

ChunkRef GetRef(ByteReader* in) {
  ChunkRef ref;
  ref.key = ChunkKey(in->Get<uint64_t>());
  ref.version = in->Get<uint64_t>();
  ref.written = in->Get<uint64_t>();
  ref.base = in->Get<uint64_t>();
  ref.element_count = in->Get<uint32_t>();
  ref.crc = in->Get<uint32_t>();
  ref.stored_bytes = in->Get<uint32_t>();
  ref.depth = in->Get<uint16_t>();
  ref.slot_count = in->Get<uint16_t>();
  return ref;
}

bool IsPossible(CheckpointId id, const ChunkRef& ref) {
  return ref.base >= 1 && ref.base <= ref.written && ref.written <= id &&
         (ref.depth == 0) == (ref.base == ref.written) && ref.depth <= ref.written - ref.base &&
         ref.element_count >= 1 && ref.element_count <= kChunkElementsMax &&
         ref.slot_count <= kSlotsMax;
}

}  // namespace

WriteStats& WriteStats::operator+=(const WriteStats& other) {
  logical_bytes += other.logical_bytes;
  written_bytes += other.written_bytes;
  shared_bytes += other.shared_bytes;
  chunks_written += other.chunks_written;
  chunks_shared += other.chunks_shared;
  return *this;
}

WriteStats StatsOf(CheckpointId id, std::span<const ChunkRef> chunks) {
  WriteStats stats;
  for (const ChunkRef& ref : chunks) {
    stats.logical_bytes += ref.logical_bytes();
    (ref.written == id ? stats.written_bytes : stats.shared_bytes) += ref.stored_bytes;
    ++(ref.written == id ? stats.chunks_written : stats.chunks_shared);
  }
  return stats;
}

std::vector<std::byte> EncodePart(CheckpointId id, const PartRecord& part) {
  ByteWriter out;
  out.Reserve(kEnvelopeBytes + 8 + part.state.size() + part.chunks.size() * kRefBytes);
  PutEnvelope(&out, RecordKind::kPart, id);
  out.Put(static_cast<uint32_t>(part.state.size()));
  out.PutBytes(part.state);
  out.Put(static_cast<uint32_t>(part.chunks.size()));
  const ChunkRef* previous = nullptr;
  for (const ChunkRef& ref : part.chunks) {
    PS_CHECK(previous == nullptr || previous->key < ref.key) << ref.key;
    PS_CHECK(IsPossible(id, ref)) << ref.key;
    PutRef(&out, ref);
    previous = &ref;
  }
  SealEnvelope(&out);
  return std::move(out).Take();
}

Result<PartRecord> DecodePart(CheckpointId id, std::span<const std::byte> bytes) {
  PS_ASSIGN(const std::span<const std::byte> body, OpenEnvelope(bytes, RecordKind::kPart, id));
  ByteReader in(body);
  PartRecord part;
  const std::span<const std::byte> state = in.GetBytes(in.Get<uint32_t>());
  part.state.assign(state.begin(), state.end());
  const size_t count = in.GetCount(kRefBytes);
  part.chunks.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    const ChunkRef ref = GetRef(&in);
    if (!IsPossible(id, ref) || (i > 0 && part.chunks.back().key >= ref.key)) {
      return Status::Corruption("its list of chunks contradicts itself");
    }
    part.chunks.push_back(ref);
  }
  if (!in.is_at_end()) {
    return Status::Corruption("it is longer or shorter than it says");
  }
  return part;
}

}  // namespace ps::checkpoint
