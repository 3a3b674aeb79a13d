#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "ps/base/buffer.h"
#include "ps/base/ids.h"
#include "ps/codec/encoding.h"
#include "ps/proto/outbox.h"
#include "ps/server/chunks/chunk_store.h"
#include "ps/server/chunks/reindexing.h"
#include "ps/server/life.h"

namespace ps::server {

/// What each member holds of the parameters here, where pulls are differences to that.
///
/// Invariants:
/// - The copy of a part has the bits that the worker has once it has taken all frames that were
///   sent to it. Both make them by the same arithmetic, so what encoding loses of a difference is
///   in the next one.
/// - A copy is of what was sent over one connection, which neither loses frames nor changes their
///   order. So a difference may follow another one that is still on its way: with overlap a worker
///   asks before the last answer has come. Should one not come all the same, the worker sees that
///   it lacks the base, and asks for the value.
/// - All copies together take ShardSettings::held_bytes_max at most. A part without one goes as a
///   value.
class HeldValues {
 public:
  /// All outlive it.
  HeldValues(const Life& life, const ChunkStore& store) : life_(life), store_(store) {}

  /// What an answer is to be.
  struct Wanted {
    codec::Encoding encoding;  // int8, int4: differences, where they can be
    bool is_evaluation = false;
  };

  /// An answer to the member begins over this connection. Returns whether it is followed: its
  /// frames have numbers then, and the functions below are for them. A member is followed from its
  /// first pull of differences until it pulls something else to train with. Copies of what went
  /// over another connection are of no use: nobody knows whether it came.
  bool Begin(Incarnation incarnation, proto::PeerId peer, const Wanted& wanted);

  /// The number of the member's next frame. Numbers grow. Another process may have been this shard
  /// in the same life and have ended when its chunks had left; the worker must not take this
  /// process's frames for older than that one's. Chunks come back by a later placement than they
  /// left by, so numbers begin with the placement.
  uint64_t NextFrame(Incarnation incarnation);

  /// How a part leaves.
  struct Form {
    codec::Encoding encoding;
    uint64_t base = 0;  // the frame that brought what the difference is to; 0: it is a value
  };

  /// `is_listed`: the worker holds the chunk, by its pull. `wanted`: as of the answer.
  Form FormOf(
      Incarnation incarnation,
      const Chunk& chunk,
      uint32_t part,
      bool is_listed,
      const codec::Encoding& wanted) const;

  /// Writes the part as it leaves in frame `number`, in the form that FormOf has told, and follows.
  /// False when the bytes would not be finite: then nothing has changed but that FormOf tells
  /// another form. `out` has the encoding's size.
  bool Encode(
      Incarnation incarnation,
      const Chunk& chunk,
      uint32_t part,
      const Form& form,
      uint64_t number,
      std::span<std::byte> out);

  void OnPeerClosed(proto::PeerId peer);
  /// The member is gone.
  void Forget(Incarnation incarnation);
  /// Chunks have come or gone.
  void Reindex(const Reindexing& chunks);
  /// At the end of a life.
  void Reset();

  /// What all copies take.
  uint64_t bytes() const { return bytes_; }

  /// Parts that went as values for want of room since the life began.
  uint64_t parts_without_room() const { return parts_without_room_; }

 private:
  struct Copy {
    Buffer value;                // empty: there is none
    uint64_t number = 0;         // of the frame that brought it
    uint32_t differences = 0;    // since the last value
    bool must_be_exact = false;  // rounded, or as a difference, it is not finite
  };

  struct State {
    bool is_followed = false;
    proto::PeerId peer;
    uint64_t frames = 0;       // the number of the newest
    std::vector<Copy> copies;  // by part of all chunks
  };

  std::span<const float> ValueOf(const Chunk& chunk, uint32_t part) const;
  std::span<float> Scratch(size_t count);
  bool EncodeValue(
      Copy* copy,
      std::span<const float> value,
      const codec::Encoding& encoding,
      std::span<std::byte> out);
  /// Makes room for a copy, if there is some.
  void Allocate(Copy* copy, size_t size_bytes);
  void Drop(State* state);

  const Life& life_;
  const ChunkStore& store_;
  std::map<Incarnation, State> states_;
  uint64_t bytes_ = 0;
  uint64_t parts_without_room_ = 0;
  Buffer scratch_;
};

}  // namespace ps::server
