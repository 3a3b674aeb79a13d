#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "ps/base/random.h"
#include "ps/base/tensor_spec.h"

namespace ps::bench {

// What the toy of asynchronous local SGD learns: bench_async_toy.cc.

inline constexpr uint32_t kToyDimensions = 512;
inline constexpr uint32_t kToyClasses = 4;

/// Points of each class in turn: each is the centre of one of its clusters, a unit vector, and
/// noise.
class ToyPoints {
 public:
  ToyPoints(uint32_t count, uint64_t seed)
      : values_(size_t{count} * kToyDimensions), labels_(count) {
    constexpr float kNoise = 0.5F;
    constexpr uint32_t kClustersPerClass = 8;
    constexpr uint32_t kClusters = kToyClasses * kClustersPerClass;
    std::vector<float> centres(size_t{kClusters} * kToyDimensions);
    const TensorSpec noise = {
        .name = {}, .shape = {}, .init = InitKind::kNormal, .init_scale = kNoise};
    Draw(noise, 0, seed, centres);
    Draw(noise, 1, seed, values_);
    for (uint32_t cluster = 0; cluster < kClusters; ++cluster) {
      const auto centre =
          std::span(centres).subspan(size_t{cluster} * kToyDimensions, kToyDimensions);
      const double square =
          std::inner_product(centre.begin(), centre.end(), centre.begin(), double{0});
      const auto scale = static_cast<float>(1 / std::sqrt(square));
      for (float& x : centre) {
        x *= scale;
      }
    }
    for (uint32_t i = 0; i < count; ++i) {
      const auto cluster = static_cast<uint32_t>(uint64_t{i} * kClusters / count);
      labels_[i] = cluster / kClustersPerClass;
      for (uint32_t d = 0; d < kToyDimensions; ++d) {
        values_[size_t{i} * kToyDimensions + d] += centres[size_t{cluster} * kToyDimensions + d];
      }
    }
  }

  size_t size() const { return labels_.size(); }

  std::span<const float> ValuesOf(size_t i) const {
    return std::span(values_).subspan(i * kToyDimensions, kToyDimensions);
  }

  uint32_t LabelOf(size_t i) const { return labels_[i]; }

 private:
  static void Draw(const TensorSpec& spec, uint32_t stream, uint64_t seed, std::span<float> out) {
    InitializeTensor(spec, stream, seed, 0, out.data(), static_cast<int64_t>(out.size()));
  }

  std::vector<float> values_;
  std::vector<uint32_t> labels_;
};

/// 0 to count - 1 in a random order.
inline std::vector<uint32_t> Shuffled(uint32_t count, Random* random) {
  std::vector<uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0U);
  for (uint32_t i = count; i > 1; --i) {
    std::swap(order[i - 1], order[random->Below(i)]);
  }
  return order;
}

/// Which points are trained on in which order: equal shards, each gone through again and again in
/// ever other orders.
class ToyFeed {
 public:
  ToyFeed(uint32_t points, uint32_t shards, uint64_t seed) : random_(seed), shards_(shards) {
    const std::vector<uint32_t> order = Shuffled(points, &random_);
    for (uint32_t i = 0; i < shards; ++i) {
      const size_t size = order.size() / shards;
      const auto begin = order.begin() + static_cast<std::ptrdiff_t>(i * size);
      shards_[i].points.assign(begin, begin + static_cast<std::ptrdiff_t>(size));
    }
  }

  /// Of those that were taken least often, a random one.
  size_t TakeShard() {
    uint64_t least = std::numeric_limits<uint64_t>::max();
    for (const Shard& shard : shards_) {
      least = std::min(least, shard.visits);
    }
    std::vector<size_t> candidates;
    for (size_t i = 0; i < shards_.size(); ++i) {
      if (shards_[i].visits == least) {
        candidates.push_back(i);
      }
    }
    const size_t taken = candidates[random_.Below(candidates.size())];
    ++shards_[taken].visits;
    return taken;
  }

  uint32_t NextOf(size_t index) {
    Shard& shard = shards_[index];
    const size_t size = shard.points.size();
    if (shard.taken % size == 0) {
      shard.order = Shuffled(static_cast<uint32_t>(size), &random_);
    }
    return shard.points[shard.order[shard.taken++ % size]];
  }

  uint64_t TakenOf(size_t index) const { return shards_[index].taken; }

  size_t shard_count() const { return shards_.size(); }

 private:
  struct Shard {
    std::vector<uint32_t> points;
    std::vector<uint32_t> order;
    uint64_t visits = 0;
    uint64_t taken = 0;
  };

  Random random_;
  std::vector<Shard> shards_;
};

}  // namespace ps::bench
