#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "ps/base/buffer.h"
#include "ps/base/ids.h"
#include "ps/base/time.h"
#include "ps/proto/messages.h"
#include "ps/proto/outbox.h"
#include "ps/server/chunk_store.h"
#include "ps/server/roster.h"
#include "ps/server/staging.h"

namespace ps::server {

/// How a shard reaches another one, by its shell.
class ShardDialer {
 public:
  virtual ~ShardDialer() = default;
  /// Connects, and tries until it has, or the next call. ShardCore::OnDialed follows, never from
  /// inside. An earlier attempt is given up.
  virtual void Dial(const proto::ShardAddress& to) = 0;
};

/// The value of a chunk and the buffers of its optimizer. Gradients that wait for their round are
/// numbered after them when they travel.
constexpr uint32_t kBuffersMax = 1 + kernels::kOptimizerSlotsMax;

/// Chunks on their way to another shard. Nothing changes them any more here.
struct Giving {
  proto::GiveChunks order;
  proto::PeerId peer;                // none: not connected
  TimePoint next_try{};              // to connect, or to offer again; none: it is being connected
  std::optional<size_t> next_chunk;  // of the order, that is to be sent; none: nothing was offered
  uint32_t next_part = 0;
  size_t next_buffer = 0;
  std::vector<proto::StagedStep> staged;           // of the offer
  std::vector<std::vector<StagedPart>> gradients;  // by staged step and part of all chunks
  std::optional<Generation> taken;  // the other shard has them, and knew this membership then
  TimePoint offered_at{};
  bool goes_first = false;  // answers to pulls wait until all of it is sent
};

/// A shard that got chunks, and is likely to get more at once: its connection is kept meanwhile.
struct Receiver {
  proto::ShardAddress address;
  proto::PeerId peer;
  TimePoint close_at{};
};

/// Chunks on their way from another shard.
struct Taking {
  proto::PeerId peer;
  uint64_t request_id = 0;  // of the offer
  proto::ChunksOffer offer;
  std::vector<Chunk> chunks;  // of the offer
  /// By staged step: of each of its chunks the parts.
  std::vector<std::map<ChunkKey, std::vector<StagedPart>>> gradients;
  std::vector<bool> has_come;  // by part of these chunks and buffer
  size_t parts_left = 0;

  size_t buffers_max() const { return kBuffersMax + offer.staged.size(); }

  /// Whether a part of this buffer of the chunk was offered.
  bool IsOffered(uint32_t buffer, const Chunk& chunk) const;
  /// Part `number` of the chunk, which is `elements` of it. Requires: it was offered.
  void Take(proto::ChunkPart& part, const proto::ChunkRef& elements, uint32_t number, Chunk* chunk);
};

/// What an offer says of each member, found without looking at the others: there may be as many as
/// there are seats.
class OfferedSteps {
 public:
  /// `store` has the chunks by now. Both outlive it.
  OfferedSteps(const proto::ChunksOffer& offer, const ChunkStore& store);

  /// One that is not named has joined since, and has done nothing in these chunks.
  proto::OfferedMember Of(Incarnation incarnation) const;

  /// The chunks that have come, by index.
  const std::vector<size_t>& come() const { return come_; }

  bool HasCome(size_t index) const { return has_come_[index]; }

  /// Those among them that have the member's step after its last one.
  const std::vector<size_t>& AheadOf(Incarnation incarnation) const;

 private:
  std::map<Incarnation, const proto::OfferedMember*> members_;
  std::vector<size_t> come_;
  std::vector<bool> has_come_;
  std::map<Incarnation, std::vector<size_t>> ahead_;
  const std::vector<size_t> none_;
};

/// Where the chunks that a shard keeps were before others came or went.
class Reindexing {
 public:
  /// `before`: the chunks as they are still.
  explicit Reindexing(const ChunkStore& before);

  /// The chunks as they are now.
  void SetAfter(const ChunkStore& after);

  /// A chunk's earlier index, first part and number of parts.
  struct Earlier {
    ChunkKey key;
    size_t index = 0;
    size_t first_part = 0;
  };

  /// By the present index; nothing for one that has come.
  const std::vector<std::optional<Earlier>>& earlier() const { return earlier_; }

  /// By the earlier index; nothing for one that has gone.
  const std::vector<std::optional<size_t>>& later() const { return later_; }

  /// By the present index of a part of all chunks, the earlier one.
  std::vector<std::optional<size_t>> EarlierParts(const ChunkStore& after) const;

 private:
  std::vector<Earlier> before_;
  std::vector<std::optional<Earlier>> earlier_;
  std::vector<std::optional<size_t>> later_;
};

/// Counts anew what the chunks of the step under way say.
void Recount(const ChunkStore& store, Intake* intake);
/// The step under way by the chunks that there are now; of one that has come nothing is here.
void Reindex(const Reindexing& chunks, const ChunkStore& store, Intake* intake);
/// False when a chunk that has gone was still to be sent: who asked asks again when it knows.
bool Reindex(const Reindexing& chunks, PullAnswer* answer);

/// Of a chunk its value, and those buffers of its optimizer that it has.
template <typename C>
auto BuffersOf(C& chunk) {
  std::vector<decltype(&chunk.value)> buffers = {&chunk.value};
  for (auto& slot : chunk.slots) {
    if (slot.size() > 0) {
      buffers.push_back(&slot);
    }
  }
  return buffers;
}

}  // namespace ps::server
