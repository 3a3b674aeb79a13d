#pragma once

#include "ps/proto/codec/field_list.h"
#include "ps/proto/messages.h"

// The fields of the messages of chunks that move. Private to the codec.

namespace ps::proto {

template <MaybeConst<GiveChunks> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"version">(m.version),
      Field<"to">(m.to),
      Field<"to_life">(m.to_life),
      Field<"keys">(m.keys));
}

template <MaybeConst<ChunksGiven> M>
auto ListFields(M& m, auto&& list) {
  return list(Field<"shard">(m.shard), Field<"version">(m.version));
}

template <MaybeConst<OfferedChunk> M>
auto ListFields(M& m, auto&& list) {
  return list(Field<"key">(m.key), Field<"version">(m.version), Field<"ahead">(m.ahead));
}

template <MaybeConst<OfferedMember> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"incarnation">(m.incarnation),
      Field<"last_step">(m.last_step),
      Field<"clock">(m.clock),
      Field<"may_skip">(m.may_skip),
      Field<"is_active">(m.is_active),
      Field<"round">(m.round),
      Field<"is_rejected">(m.is_rejected),
      Field<"last_samples">(m.last_samples),
      Field<"next_samples">(m.next_samples));
}

template <MaybeConst<StagedStep> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"incarnation">(m.incarnation),
      Field<"step">(m.step),
      Field<"round">(m.round),
      Field<"samples">(m.samples),
      Field<"keys">(m.keys));
}

template <MaybeConst<ChunksOffer> M>
auto ListFields(M& m, auto&& list) {
  return list(
      Field<"from">(m.from),
      Field<"version">(m.version),
      Field<"to_life">(m.to_life),
      Field<"generation">(m.generation),
      Field<"samples_done">(m.samples_done),
      Field<"lr_factor">(m.lr_factor),
      Field<"members">(m.members),
      Field<"chunks">(m.chunks),
      Field<"staged">(m.staged));
}

template <MaybeConst<ChunkPart> M>
auto ListFields(M& m, auto&& list) {
  return list(Field<"version">(m.version), Field<"buffer">(m.buffer), Field<"chunks">(m.chunks));
}

template <MaybeConst<ChunksTaken> M>
auto ListFields(M& m, auto&& list) {
  return list(Field<"version">(m.version), Field<"generation">(m.generation));
}

}  // namespace ps::proto
