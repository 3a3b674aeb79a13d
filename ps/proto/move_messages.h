#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ps/base/ids.h"
#include "ps/proto/frame.h"

namespace ps::proto {

// Where shards and chunks are, and how chunks move from shard to shard while training goes on. The
// flow is told in PROTOCOL.md.

/// A chunk in a payload, whole or a part of it (ChunkParts).
struct ChunkRef {
  ChunkKey key;
  uint32_t element_count = 0;  // f32 elements in the payload, in order
  uint32_t element_begin = 0;  // of them within the chunk
};

struct ShardAddress {
  ShardId shard;
  std::string host;
  uint32_t port = 0;

  friend bool operator==(const ShardAddress&, const ShardAddress&) = default;
};

struct ChunkPlace {
  ChunkKey key;
  ShardId shard;
};

/// Where shards are now: every member is told of one that has come back. With a `version` also
/// which chunks are elsewhere in that placement than in `base`, or any later one, and of shards
/// those that they are on; with base 0 all chunks and all shards, as for a member that connects.
struct ShardAddresses {
  std::vector<ShardAddress> shards;
  uint64_t base = 0;
  uint64_t version = 0;  // 0: it says nothing of chunks
  std::vector<ChunkPlace> places;
};

/// Coordinator to shard: give these chunks to another one; they are there from placement `version`
/// on. Sent again until ChunksGiven.
struct GiveChunks {
  uint64_t version = 0;
  ShardAddress to;
  uint64_t to_life = 0;
  std::vector<ChunkKey> keys;
};

/// The other shard has the chunks of this placement, and this one has them no more.
struct ChunksGiven {
  ShardId shard;
  uint64_t version = 0;
};

/// What the shard that gives has of one worker's steps.
struct OfferedMember {
  Incarnation incarnation;
  Step last_step = 0;     // in all chunks that are offered
  uint64_t clock = 0;     // as the staleness bound counts, when it was offered
  bool may_skip = false;  // of steps before its next one, some may be lost with an earlier life
  bool is_active = true;  // it has work
  // bsp: what was staged as last_step.
  uint64_t round = 0;
  bool is_rejected = false;
  // async, ssp: samples by which a schedule's clock grows with last_step, and with the step after
  // it, which ChunksOffer::samples_done lacks; 0 where the shard does not know.
  uint32_t last_samples = 0;
  uint32_t next_samples = 0;
};

struct OfferedChunk {
  ChunkKey key;
  Version version = 0;
  std::vector<Incarnation> ahead;  // those whose step after last_step it has
};

/// bsp: the gradients of one worker's step that wait for the open round, in chunks on offer. When
/// the giver has a step in a chunk, and no gradient of it is named here, the gradient was not
/// finite, and the step is void.
struct StagedStep {
  Incarnation incarnation;
  Step step = 0;
  uint64_t round = 0;
  uint32_t samples = 0;
  std::vector<ChunkKey> keys;  // ascending; all of each one's gradient travels

  friend bool operator==(const StagedStep&, const StagedStep&) = default;
};

/// Shard to shard: chunks as they are now, which nothing changes any more where they come from. All
/// their parts follow on the same connection, as ChunkPart. An offer takes the place of an earlier
/// one. Answered with ChunksTaken when all is there, by kUnavailable when the receiver does not
/// know `generation` yet: it is offered again then.
struct ChunksOffer {
  ShardId from;
  uint64_t version = 0;  // of the placement
  uint64_t to_life = 0;
  Generation generation;      // of the membership that `members` is of
  uint64_t samples_done = 0;  // without steps that the chunks lack
  double lr_factor = 0;
  std::vector<OfferedMember> members;
  std::vector<OfferedChunk> chunks;  // by key
  std::vector<StagedStep> staged;    // by incarnation and step
};

/// Elements of one chunk's value, of one of its optimizer's buffers, or of a gradient that waits
/// for its round. Payload: f32.
struct ChunkPart {
  uint64_t version = 0;          // of the placement
  uint32_t buffer = 0;           // 0: the value; 1, 2: the optimizer's; from 3 on: of `staged`
  std::vector<ChunkRef> chunks;  // one
  Payload payload;
};

/// The chunks are this shard's now. Who gave them forgets them when it knows `generation`, too.
struct ChunksTaken {
  uint64_t version = 0;
  Generation generation;
};

}  // namespace ps::proto
