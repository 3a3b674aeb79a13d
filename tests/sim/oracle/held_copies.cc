#include "tests/sim/oracle/held_copies.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ps/base/check.h"
#include "ps/codec/encoding.h"

#pragma STDC FP_CONTRACT OFF

namespace ps::sim {
namespace {

/// No worker computes with what it was sent so many answers ago.
constexpr size_t kKept = 100;

bool IsSame(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

std::vector<float> Decoded(
    const codec::Encoding& encoding, std::span<const std::byte> bytes, size_t count) {
  std::vector<float> values(count);
  const Status status = codec::Decode(encoding, bytes, values);
  PS_CHECK(status.ok()) << status;
  return values;
}

std::vector<float> Rounded(const codec::Encoding& encoding, std::span<const float> values) {
  std::vector<std::byte> bytes(encoding.SizeOf(values.size()));
  codec::Encode(encoding, values, {}, bytes);
  return Decoded(encoding, bytes, values.size());
}

/// Whether a difference has come as near to the value as its encoding says.
bool IsNear(
    const codec::Encoding& encoding,
    std::span<const float> value,
    std::span<const float> base,
    std::span<const float> copy) {
  const double share = encoding.kind == codec::EncodingKind::kInt8 ? 1 / 253.0 : 1 / 5.9;
  double largest = 0;
  for (size_t i = 0; i < value.size(); ++i) {
    largest = std::max(largest, std::abs(double{value[i]} - double{base[i]}));
  }
  for (size_t i = 0; i < value.size(); ++i) {
    const double rounding = 1e-6 * (std::abs(double{value[i]}) + std::abs(double{base[i]}));
    if (std::abs(double{value[i]} - double{copy[i]}) > largest * share + rounding) {
      return false;
    }
  }
  return true;
}

}  // namespace

std::string HeldCopies::Take(
    LifeId life, Incarnation to, const proto::PullReply& reply, const ValueOf& value_of) {
  std::vector<std::byte> payload;
  for (const std::span<const std::byte> part : reply.payload.parts) {
    payload.insert(payload.end(), part.begin(), part.end());
  }
  std::span<const std::byte> rest = payload;
  for (const proto::PullReply::Chunk& chunk : reply.chunks) {
    const auto bytes = rest.first(reply.encoding.SizeOf(chunk.element_count));
    rest = rest.subspan(bytes.size());
    std::span<const float> value = value_of(chunk.key, chunk.version);
    if (!value.empty()) {
      value = value.subspan(chunk.element_begin, chunk.element_count);
    }
    const std::string wrong =
        TakePart({life, to, chunk.key, chunk.element_begin}, reply, chunk, bytes, value);
    if (!wrong.empty()) {
      return "frame " + std::to_string(reply.number) + " to incarnation " +
             std::to_string(to.value) + ", chunk " + std::to_string(chunk.key.value) + ": " + wrong;
    }
  }
  return {};
}

std::string HeldCopies::TakePart(
    const Place& place,
    const proto::PullReply& reply,
    const proto::PullReply::Chunk& chunk,
    std::span<const std::byte> bytes,
    std::span<const float> value) {
  std::vector<Copy>& copies = copies_[place];
  Copy next{reply.number, chunk.version, Decoded(reply.encoding, bytes, chunk.element_count)};
  // Frames have no number until the worker pulls to train: the first one may be for an evaluation.
  const bool is_numbered = reply.number != 0;
  if (is_numbered && !copies.empty() && reply.number <= copies.back().number) {
    return "its number does not grow";
  }
  if (chunk.base == 0) {
    if (!value.empty() && !IsSame(next.values, Rounded(reply.encoding, value))) {
      return "it is not the value of version " + std::to_string(chunk.version);
    }
  } else {
    if (copies.empty() || copies.back().number != chunk.base) {
      return "it is a difference to frame " + std::to_string(chunk.base) +
             ", which is not the last one";
    }
    const std::vector<float>& base = copies.back().values;
    for (size_t i = 0; i < base.size(); ++i) {
      next.values[i] += base[i];
    }
    if (!value.empty() && !IsNear(reply.encoding, value, base, next.values)) {
      return "it does not lead to the value of version " + std::to_string(chunk.version);
    }
  }
  copies.push_back(std::move(next));
  if (copies.size() > kKept) {
    copies.erase(copies.begin());
  }
  return {};
}

void HeldCopies::Move(LifeId from, LifeId to, ChunkKey key) {
  std::set<LifeId> lives = before_[{from, key}];
  lives.insert(from);
  before_[{to, key}].merge(lives);
}

bool HeldCopies::Has(
    LifeId life,
    Incarnation incarnation,
    ChunkKey key,
    uint32_t begin,
    std::span<const float> values,
    Version oldest,
    Version newest) const {
  const auto is_of = [&](LifeId its) {
    const auto copies = copies_.find({its, incarnation, key, begin});
    return copies != copies_.end() &&
           std::any_of(copies->second.rbegin(), copies->second.rend(), [&](const Copy& copy) {
             return copy.version >= oldest && copy.version <= newest && IsSame(copy.values, values);
           });
  };
  const auto before = before_.find({life, key});
  return is_of(life) || (before != before_.end() && std::ranges::any_of(before->second, is_of));
}

}  // namespace ps::sim
