#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "ps/base/status.h"
#include "ps/client/chunk_layout.h"
#include "ps/codec/encoding.h"
#include "ps/proto/chunks.h"
#include "ps/proto/messages.h"

namespace ps::client {

/// The values of one shard that have arrived: the version held of each chunk, and answers to pulls
/// that arrive frame by frame, in any order. Request ids grow from pull to pull.
///
/// The parts of a large chunk are used as they come. Until the last part is here the chunk counts
/// as held at its old version, so that an interrupted answer is sent again.
///
/// When the shard has begun a newer life, nothing of the older one counts as held any more.
///
/// Where pulls are differences, the shard numbers its frames, and numbers say what is newer. A
/// difference is used if the part has come last in the frame that it is to, once, and else never.
/// When one comes that would be newer, and its base is not here, the chunk counts as not held, so
/// the next pull brings its value.
class PullIntake {
 public:
  /// `chunks` are the shard's, by key.
  PullIntake(ShardId shard, std::vector<ChunkLayout::Chunk> chunks, size_t frame_bytes);

  /// Values newer than what is held, of a chunk or of a part of one.
  struct Fresh {
    ChunkKey key;
    uint32_t element_begin = 0;        // within the chunk
    int64_t offset = 0;                // in elements, where ChunkLayout lays out parameters
    std::span<const std::byte> bytes;  // as they came
    uint32_t element_count = 0;
    codec::Encoding encoding{};
    bool is_difference = false;           // to the value that was handed over before
    std::shared_ptr<const void> owner{};  // of the bytes
  };

  struct Taken {
    std::vector<Fresh> fresh;
    uint32_t completed_chunks = 0;  // of the answer, by this frame
    bool lacks_base = false;        // a difference is to what is not held: ask anew
  };

  /// Takes one frame of the answer to `request_id`. Chunks that it names by a placement newer than
  /// `known` are counted and left out. Errors: kInvalidArgument when it does not fit the layout, or
  /// bytes are no difference.
  Result<Taken> Take(
      uint64_t request_id, const proto::PullReply& reply, uint64_t known = UINT64_MAX);

  /// The chunk is on another shard now: values of it that still come are ignored.
  void Remove(ChunkKey key);
  /// The chunk is this shard's now; nothing of it is held.
  void Add(const ChunkLayout::Chunk& chunk);

  /// Gradients travel as the layout has them from now on.
  void TakeEncodings(const ChunkLayout& layout);

  /// For a pull. `exact`: chunks whose values were rounded on their way don't count.
  std::vector<proto::ChunkVersion> Held(bool exact = false) const;

  /// The shard's life that the versions held are of; 0 before any has come.
  uint64_t life() const { return life_; }

  const std::vector<ChunkLayout::Chunk>& chunks() const { return chunks_; }

 private:
  /// A part of a chunk, where the shard numbers its frames.
  struct Part {
    uint64_t number = 0;        // of the frame that has brought it
    bool is_base_lost = false;  // a newer frame is to what is not here
  };

  struct State {
    bool is_held = false;
    bool is_rounded = false;  // what is held
    Version version = 0;
    uint64_t completed_by = 0;  // the newest answer that was complete for this chunk
    // A chunk of several parts: the newest answer that brought some.
    uint64_t coming_by = 0;
    std::vector<bool> has_come;
    uint32_t parts_left = 0;
    Version coming_version = 0;      // the oldest of its parts
    bool is_coming_rounded = false;  // one of its parts
    std::vector<Part> parts;         // those of numbered frames; empty before

    bool is_base_lost() const { return std::ranges::any_of(parts, &Part::is_base_lost); }

    /// Exact values are used where rounded ones of the same version are held.
    bool IsOlderThan(Version v, bool v_is_rounded) const {
      return !is_held || version < v || (version == v && is_rounded && !v_is_rounded);
    }
  };

  /// The chunk of the entry and the number of the part; nothing when the entry fits none.
  struct Place {
    size_t index = 0;
    uint32_t part = 0;
  };

  std::optional<Place> PlaceOf(const proto::PullReply::Chunk& entry) const;

  /// What comes of a part.
  enum class Use : uint8_t {
    kNewer,      // it is to be stored
    kOlder,      // what is held is as new
    kLacksBase,  // it can't be
  };

  /// A part, as it came.
  struct Arrival {
    uint64_t request_id = 0;
    Version version = 0;
    bool is_rounded = false;
    uint64_t number = 0;
    uint64_t base = 0;
  };

  static Use UseOf(const State& state, uint32_t part, const Arrival& arrival);

  /// Whether the answer has brought all of the chunk with this part.
  bool TakePart(const Place& place, const Arrival& arrival, Use* use);

  Status CheckEncoding(const proto::PullReply& reply) const;
  Status CheckEntry(
      const proto::PullReply& reply,
      const proto::PullReply::Chunk& entry,
      std::span<const std::byte> bytes);

  /// The answer has brought a chunk that is not this shard's. Returns whether for the first time.
  bool CountUnknown(uint64_t request_id, ChunkKey key);

  const ShardId shard_;
  const proto::ChunkParts parts_;
  std::vector<ChunkLayout::Chunk> chunks_;
  std::vector<State> states_;
  std::set<ChunkKey> gone_;
  // Chunks that have come while they were not this shard's, or that are not any more, with this
  // answer. A frame that comes twice counts once, also where its chunk has moved meanwhile.
  std::set<ChunkKey> unknown_;
  uint64_t unknown_by_ = 0;
  uint64_t life_ = 0;
  std::vector<float> scratch_;  // a difference that is looked at
};

}  // namespace ps::client
