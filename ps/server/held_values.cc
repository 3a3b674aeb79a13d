#include "ps/server/held_values.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "kernels/cpu/finite.h"
#include "ps/base/check.h"
#include "ps/codec/difference.h"
#include "ps/proto/exchange.h"

namespace ps::server {

bool HeldValues::Begin(Incarnation incarnation, proto::PeerId peer, const Wanted& wanted) {
  if (!proto::HasDifferences(wanted.encoding) && !states_.contains(incarnation)) {
    return false;
  }
  State& state = states_[incarnation];
  if (proto::HasDifferences(wanted.encoding)) {
    state.is_followed = true;
  } else if (!wanted.is_evaluation) {
    state.is_followed = false;
  }
  if (state.peer != peer || !state.is_followed) {
    Drop(&state);
    state.peer = peer;
  }
  if (state.is_followed) {
    state.copies.resize(store_.part_count());
  }
  return state.is_followed;
}

uint64_t HeldValues::NextFrame(Incarnation incarnation) {
  constexpr int kFramesBits = 32;  // more than a process sends to a member in its life
  uint64_t& frames = states_.at(incarnation).frames;
  frames = std::max(frames, store_.placement() << kFramesBits) + 1;
  return frames;
}

HeldValues::Form HeldValues::FormOf(
    Incarnation incarnation,
    const Chunk& chunk,
    uint32_t part,
    bool is_listed,
    const codec::Encoding& wanted) const {
  const Copy& copy = states_.at(incarnation).copies[chunk.first_part + part];
  // An average that nobody moves comes once: no difference would mend what another form loses.
  if (copy.must_be_exact || chunk.rule == UpdateRule::kAverage) {
    return {};
  }
  const codec::Encoding whole = proto::WholeEncodingOf(wanted);
  const size_t count = store_.RangeOf(chunk, part).element_count;
  const bool is_smaller = wanted.SizeOf(count) < whole.SizeOf(count);  // never without differences
  if (is_listed && is_smaller && copy.value.size() > 0 &&
      copy.differences < proto::kDifferencesInARow) {
    return {wanted, copy.number};
  }
  return {whole, 0};
}

bool HeldValues::Encode(
    Incarnation incarnation,
    const Chunk& chunk,
    uint32_t part,
    const Form& form,
    uint64_t number,
    std::span<std::byte> out) {
  Copy& copy = states_.at(incarnation).copies[chunk.first_part + part];
  const std::span<const float> value = ValueOf(chunk, part);
  const bool is_written =
      form.base == 0 ? EncodeValue(&copy, value, form.encoding, out)
                     : codec::EncodeDifference(
                           form.encoding, value, copy.value.floats(), Scratch(value.size()), out);
  if (!is_written) {
    copy.must_be_exact = true;
    return false;
  }
  copy.must_be_exact = false;
  copy.differences = form.base == 0 ? 0 : copy.differences + 1;
  copy.number = number;
  return true;
}

/// What is as f32 may be anything. A copy that is not finite is none: no difference to it is.
bool HeldValues::EncodeValue(
    Copy* copy,
    std::span<const float> value,
    const codec::Encoding& encoding,
    std::span<std::byte> out) {
  codec::Encode(encoding, value, {}, out);
  const std::span<float> arrives = Scratch(value.size());
  const Status status = codec::Decode(encoding, out, arrives);
  PS_CHECK(status.ok()) << status;  // it was just written
  const bool is_finite = kernels::AllFinite(arrives);
  if (!is_finite && encoding.is_lossy()) {
    return false;
  }
  if (is_finite) {
    Allocate(copy, value.size_bytes());
    if (copy->value.size() > 0) {
      std::ranges::copy(arrives, copy->value.floats().begin());
    }
  } else {
    bytes_ -= copy->value.size();
    copy->value = Buffer();
  }
  return true;
}

std::span<const float> HeldValues::ValueOf(const Chunk& chunk, uint32_t part) const {
  const auto [begin, count] = store_.RangeOf(chunk, part);
  return chunk.value.floats().subspan(begin, count);
}

std::span<float> HeldValues::Scratch(size_t count) {
  if (scratch_.floats().size() < count) {
    scratch_ = Buffer(count * sizeof(float));
  }
  return scratch_.floats().first(count);
}

void HeldValues::Allocate(Copy* copy, size_t size_bytes) {
  if (copy->value.size() > 0) {
    return;
  }
  if (bytes_ + size_bytes > life_.settings.held_bytes_max) {
    ++parts_without_room_;
    return;
  }
  copy->value = Buffer(size_bytes);
  bytes_ += size_bytes;
}

void HeldValues::Drop(State* state) {
  for (const Copy& copy : state->copies) {
    bytes_ -= copy.value.size();
  }
  state->copies.clear();
}

void HeldValues::OnPeerClosed(proto::PeerId peer) {
  for (auto& [incarnation, state] : states_) {
    if (state.peer == peer) {
      Drop(&state);
      state.peer = proto::PeerId();
    }
  }
}

void HeldValues::Forget(Incarnation incarnation) {
  if (const auto state = states_.find(incarnation); state != states_.end()) {
    Drop(&state->second);
    states_.erase(state);
  }
}

void HeldValues::Reindex(const Reindexing& chunks) {
  const std::vector<std::optional<size_t>> earlier = chunks.EarlierParts(store_);
  for (auto& [incarnation, state] : states_) {
    if (state.copies.empty()) {
      continue;  // it has asked for nothing since its connection ended
    }
    std::vector<Copy> copies(earlier.size());
    for (size_t part = 0; part < earlier.size(); ++part) {
      if (earlier[part]) {
        copies[part] = std::move(state.copies[*earlier[part]]);
      }
    }
    Drop(&state);  // what has left
    state.copies = std::move(copies);
  }
}

void HeldValues::Reset() {
  states_.clear();
  bytes_ = 0;
  parts_without_room_ = 0;
}

}  // namespace ps::server
