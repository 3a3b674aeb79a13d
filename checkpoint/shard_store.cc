#include "checkpoint/shard_store.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "checkpoint/chunk_record.h"
#include "checkpoint/keys.h"
#include "checkpoint/model/half.h"
#include "ps/base/check.h"
#include "ps/base/crc32c.h"

namespace ps::checkpoint {
namespace {

constexpr Column kChunks = 0;
constexpr Column kParts = 1;
constexpr std::array<std::string_view, 2> kShardColumns = {"chunks", "parts"};

std::string ChunkName(ChunkKey key, CheckpointId id) {
  return fmt::format("chunk {} of tensor {} in checkpoint {}", ChunkOf(key), TensorOf(key), id);
}

/// The records of one chunk that kept parts need, by checkpoint: [base, written] of each ref.
struct Span {
  CheckpointId base = 0;
  CheckpointId written = 0;
};

using Reachable = std::map<ChunkKey, std::vector<Span>>;

Database::KeepFunction KeepReachable(Reachable reachable, CheckpointId newest) {
  return [reachable = std::move(reachable), newest](std::string_view key) {
    const RecordKey record = ParseRecordKey(key);
    if (record.id > newest) {
      return true;  // of a checkpoint that is being written
    }
    const auto it = reachable.find(record.key);
    return it != reachable.end() &&
           std::any_of(it->second.begin(), it->second.end(), [&](const Span& span) {
             return span.base <= record.id && record.id <= span.written;
           });
  };
}

/// A chunk as it will be read back; `rooms` has what is not as in memory.
ChunkImage Rounded(
    const ChunkImage& image, SlotType slots, std::array<std::vector<float>, kSlotsMax>* rooms) {
  ChunkImage rounded = image;
  for (size_t i = 0; i < kSlotsMax && slots == SlotType::kBf16; ++i) {
    (*rooms)[i].resize(image.slots[i].size());
    RoundToBf16(image.slots[i], (*rooms)[i]);
    rounded.slots[i] = (*rooms)[i];
  }
  return rounded;
}

/// Value and slots.
std::vector<std::span<const std::byte>> BuffersOf(const ChunkImage& image) {
  const size_t elements = image.value.size();
  PS_CHECK(elements >= 1 && elements <= kChunkElementsMax) << image.key << ": " << elements;
  std::vector<std::span<const std::byte>> buffers = {std::as_bytes(image.value)};
  for (const std::span<const float> slot : image.slots) {
    if (!slot.empty()) {
      PS_CHECK(slot.size() == elements) << image.key << ": " << slot.size();
      buffers.push_back(std::as_bytes(slot));
    }
  }
  return buffers;
}

std::array<std::span<std::byte>, kBuffersMax> BuffersOf(ChunkData& data) {
  return {data.value.bytes(), data.slots[0].bytes(), data.slots[1].bytes()};
}

/// Whether a delta from there makes sense and has few enough others below it.
bool CanBeBase(const ChunkRef& previous, const ChunkHead& head) {
  return previous.written < head.written && previous.depth < kDeltasMax &&
         previous.element_count == head.element_count &&
         previous.slot_count + 1 == head.buffer_count;
}

}  // namespace

std::string ShardDirectory(ShardId shard) {
  return fmt::format("shard-{}", shard.value);
}

Result<std::unique_ptr<ShardStore>> ShardStore::Open(
    Storage& storage, const std::string& path, ShardId shard, OpenMode mode) {
  return Open(storage, path, ShardDirectory(shard), mode);
}

Result<std::unique_ptr<ShardStore>> ShardStore::Open(
    Storage& storage, const std::string& path, const std::string& directory, OpenMode mode) {
  PS_ASSIGN(auto database, storage.Open(path + "/" + directory, kShardColumns, mode));
  std::unique_ptr<ShardStore> store(new ShardStore(std::move(database), directory));
  if (mode == OpenMode::kWrite) {  // a reader has what can be read, beside what can't
    PS_ASSIGN(const std::vector<CheckpointId> parts, store->Parts());
    store->newest_ = parts.empty() ? 0 : parts.back();
  }
  return store;
}

ShardStore::ShardStore(std::unique_ptr<Database> database, std::string name)
    : database_(std::move(database)), name_(std::move(name)) {}

Result<ChunkRef> ShardStore::PutChunk(
    CheckpointId id, const ChunkImage& image, const ChunkRef* previous, const ChunkFormat& format) {
  PS_TRY(CheckCanWrite(id));
  std::array<std::vector<float>, kSlotsMax> rounded;
  const std::vector<std::span<const std::byte>> buffers =
      BuffersOf(Rounded(image, format.slots, &rounded));
  ChunkHead head;
  head.key = image.key;
  head.written = id;
  head.version = image.version;
  head.element_count = static_cast<uint32_t>(image.value.size());
  head.buffer_count = static_cast<uint32_t>(buffers.size());

  const bool may_be_delta =
      format.codec == Codec::kZstd && previous != nullptr && CanBeBase(*previous, head);
  std::optional<ChunkData> base;
  if (may_be_delta) {
    // A base that can't be read is no reason to fail: without one the chunk is written in full.
    Result<ChunkData> read = ReadChunk(*previous);
    if (read.ok()) {
      base = std::move(read).value();
    }
  }
  Change change;
  change.column = kChunks;
  change.value.emplace_back();  // the head's place
  std::array<std::vector<std::byte>, kBuffersMax> packed;
  std::array<std::vector<std::byte>, kBuffersMax> rooms;
  bool is_delta = false;
  for (size_t i = 0; i < buffers.size(); ++i) {
    head.crc = Crc32c(buffers[i], head.crc);
    ChunkCodec::Encoded encoded{.encoding = Encoding::kRaw, .bytes = buffers[i]};
    if (i > 0 && format.slots == SlotType::kBf16) {
      encoded = ChunkCodec::Pack(buffers[i], &packed[i]);
    }
    if (format.codec == Codec::kZstd) {
      const auto below = base.has_value() ? BuffersOf(*base)[i] : std::span<std::byte>();
      encoded = codec_.Encode(encoded, buffers[i], below, &rooms[i]);
    }
    is_delta = is_delta || encoded.encoding == Encoding::kDelta;
    head.encodings[i] = encoded.encoding;
    head.stored_bytes[i] = static_cast<uint32_t>(encoded.bytes.size());
    change.value.push_back(encoded.bytes);
  }
  if (is_delta) {
    head.previous = previous->written;
    head.depth = previous->depth + 1;
  }
  const std::vector<std::byte> head_bytes = EncodeChunkHead(head);
  change.value.front() = head_bytes;
  const std::string key = MakeRecordKey(image.key, id);
  change.key = key;
  PS_TRY(Write(id, change).Annotate("writing " + ChunkName(image.key, id)));
  PS_TRY(CheckCanWrite(id));

  ChunkRef ref;
  ref.key = image.key;
  ref.version = image.version;
  ref.written = id;
  ref.base = is_delta ? previous->base : id;
  ref.depth = head.depth;
  ref.element_count = head.element_count;
  ref.slot_count = head.buffer_count - 1;
  ref.crc = head.crc;
  for (const std::span<const std::byte> piece : change.value) {
    ref.stored_bytes += static_cast<uint32_t>(piece.size());
  }
  return ref;
}

Status ShardStore::CheckCanWrite(CheckpointId id) const {
  if (id <= newest_) {
    return Status::InvalidArgument(fmt::format(
        "{} has its part of checkpoint {} already and can't write to {}", name_, newest_, id));
  }
  if (id <= lost_) {
    return Status::Stale(fmt::format(
        "what {} had written of checkpoint {} was lost when its disk failed", name_, id));
  }
  return Status::Ok();
}

Status ShardStore::Write(CheckpointId id, const Change& change) {
  Status written = database_->Write({&change, 1}, Durability::kFlush);
  if (database_->losses() != losses_) {
    losses_ = database_->losses();
    lost_ = newest_put_;
  }
  newest_put_ = std::max(newest_put_, id);
  return written;
}

Result<PartSummary> ShardStore::CommitPart(CheckpointId id, const PartRecord& part) {
  PS_TRY(CheckCanWrite(id));
  const std::vector<std::byte> bytes = EncodePart(id, part);
  const std::string key = MakeIdKey(id);
  const Change change{
      .kind = ChangeKind::kPut, .column = kParts, .key = key, .value = {std::span(bytes)}};
  const std::string context = fmt::format("writing the part of {} of checkpoint {}", name_, id);
  PS_TRY(Write(id, change).Annotate(context));
  PS_TRY(CheckCanWrite(id));
  for (const ChunkRef& ref : part.chunks) {
    if (ref.written > newest_ && ref.written <= lost_) {
      return Status::Stale(
          fmt::format("{} was lost when the disk failed", ChunkName(ref.key, ref.written)));
    }
  }
  PS_TRY(database_->Flush().Annotate(context));
  newest_ = id;
  return PartSummary{
      .bytes = bytes.size(), .crc = Crc32c(bytes), .stats = StatsOf(id, part.chunks)};
}

Result<PartRecord> ShardStore::ReadPart(CheckpointId id) {
  PartRecord part;
  const auto visit = [&](std::string_view /*key*/, std::span<const std::byte> bytes) -> Status {
    PS_ASSIGN(part, DecodePart(id, bytes));
    return Status::Ok();
  };
  if (Status read = database_->Read(kParts, MakeIdKey(id), ReadCheck::kEngine, visit); !read.ok()) {
    return std::move(read).Annotate(fmt::format("the part of {} of checkpoint {}", name_, id));
  }
  return part;
}

Result<uint32_t> ShardStore::PartCrc(CheckpointId id) {
  uint32_t crc = 0;
  const auto visit = [&](std::string_view /*key*/, std::span<const std::byte> bytes) -> Status {
    crc = Crc32c(bytes);
    return Status::Ok();
  };
  if (Status read = database_->Read(kParts, MakeIdKey(id), ReadCheck::kEngine, visit); !read.ok()) {
    return std::move(read).Annotate(fmt::format("the part of {} of checkpoint {}", name_, id));
  }
  return crc;
}

Status ShardStore::Decode(const ChunkRef& ref, CheckpointId id, uint32_t wanted, ChunkData* data) {
  const std::array<std::span<std::byte>, kBuffersMax> targets = BuffersOf(*data);
  const auto visit = [&](std::string_view /*key*/, std::span<const std::byte> bytes) -> Status {
    PS_ASSIGN(const ChunkView view, ViewChunkRecord(ref.key, id, bytes));
    const ChunkHead& head = view.head;
    if (head.element_count != ref.element_count || head.buffer_count != 1 + ref.slot_count ||
        (id == ref.written && (head.version != ref.version || head.crc != ref.crc))) {
      return Status::Corruption("its record is another one than the checkpoint refers to");
    }
    uint32_t deltas = 0;
    for (uint32_t i = 0; i < head.buffer_count; ++i) {
      const bool is_delta = head.encodings[i] == Encoding::kDelta;
      deltas |= is_delta ? wanted & (1U << i) : 0;
    }
    if (deltas != 0) {
      if (head.previous < ref.base) {
        return Status::Corruption("its record needs an older one than the checkpoint says");
      }
      PS_TRY(Decode(ref, head.previous, deltas, data));
    }
    for (uint32_t i = 0; i < head.buffer_count; ++i) {
      if ((wanted & (1U << i)) != 0) {
        PS_TRY(codec_.Decode(head.encodings[i], view.stored[i], targets[i]));
      }
    }
    return Status::Ok();
  };
  // The head has a checksum, and so have the values.
  return database_->Read(kChunks, MakeRecordKey(ref.key, id), ReadCheck::kCaller, visit);
}

Result<ChunkData> ShardStore::ReadChunk(const ChunkRef& ref) {
  const size_t bytes = size_t{ref.element_count} * sizeof(float);
  ChunkData data;
  data.version = ref.version;
  data.value = Buffer(bytes);
  for (size_t i = 0; i < ref.slot_count; ++i) {
    data.slots[i] = Buffer(bytes);
  }
  const uint32_t all = (1U << (1 + ref.slot_count)) - 1;
  Status status = Decode(ref, ref.written, all, &data);
  if (status.ok()) {
    uint32_t crc = Crc32c(data.value.bytes());
    for (const Buffer& slot : data.slots) {
      crc = Crc32c(slot.bytes(), crc);
    }
    if (crc != ref.crc) {
      status = Status::Corruption("its checksum is wrong");
    }
  }
  if (!status.ok()) {
    return std::move(status).Annotate(ChunkName(ref.key, ref.written));
  }
  return data;
}

Result<std::vector<CheckpointId>> ShardStore::Parts() {
  std::vector<CheckpointId> ids;
  PS_TRY(database_->Scan(kParts, "", [&](std::string_view key, std::span<const std::byte>) {
    ids.push_back(ParseIdKey(key));
    return Status::Ok();
  }));
  return ids;
}

Status ShardStore::Retain(std::span<const CheckpointId> kept) {
  const CheckpointId newest_kept = kept.empty() ? 0 : *std::max_element(kept.begin(), kept.end());
  return Keep(kept, newest_kept, newest_);
}

Status ShardStore::Release(std::span<const CheckpointId> kept, CheckpointId next) {
  if (next == 0) {
    return Status::Ok();
  }
  PS_TRY(Keep(kept, next - 1, next - 1));
  PS_ASSIGN(const std::vector<CheckpointId> parts, Parts());
  newest_ = parts.empty() ? 0 : parts.back();
  return Status::Ok();
}

Status ShardStore::Keep(
    std::span<const CheckpointId> kept, CheckpointId newest, CheckpointId newest_record) {
  PS_ASSIGN(const std::vector<CheckpointId> ids, Parts());
  Reachable reachable;
  std::vector<CheckpointId> gone;
  for (const CheckpointId id : ids) {
    if (id <= newest && std::find(kept.begin(), kept.end(), id) == kept.end()) {
      gone.push_back(id);
      continue;
    }
    PS_ASSIGN(const PartRecord part, ReadPart(id));
    for (const ChunkRef& ref : part.chunks) {
      std::vector<Span>& spans = reachable[ref.key];
      if (spans.empty() || spans.back().written != ref.written) {
        spans.push_back({.base = ref.base, .written = ref.written});
      }
    }
  }
  const bool has_loose_records = newest_record > newest_ && newest_put_ > newest_;
  if (gone.empty() && !has_loose_records) {
    return Status::Ok();
  }
  if (!gone.empty()) {
    PS_TRY(DeleteParts(gone));
  }
  return database_->Prune(kChunks, KeepReachable(std::move(reachable), newest_record));
}

Status ShardStore::DeleteParts(std::span<const CheckpointId> ids) {
  std::vector<std::string> keys;
  std::vector<Change> changes;
  keys.reserve(ids.size());
  for (const CheckpointId id : ids) {
    keys.push_back(MakeIdKey(id));
    changes.push_back(
        {.kind = ChangeKind::kErase, .column = kParts, .key = keys.back(), .value = {}});
  }
  PS_TRY(database_->Write(changes, Durability::kFlush));
  return database_->Flush();
}

Status ShardStore::ForgetAbove(CheckpointId id) {
  PS_ASSIGN(std::vector<CheckpointId> ids, Parts());
  std::erase_if(ids, [id](CheckpointId part) { return part <= id; });
  if (!ids.empty()) {
    PS_TRY(DeleteParts(ids));
    newest_ = std::min(newest_, id);
  }
  return Status::Ok();
}

void ShardStore::LimitWrites(uint64_t bytes_per_s) {
  database_->LimitWrites(bytes_per_s);
}

}  // namespace ps::checkpoint
