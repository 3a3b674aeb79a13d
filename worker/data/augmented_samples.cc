#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "ps/base/random.h"
#include "worker/data/samples.h"

namespace ps::worker {
namespace {

// Streams of a sample's random numbers; others of the same draw belong to the samples within.
constexpr uint64_t kMoveDown = 0xa1;
constexpr uint64_t kMoveRight = 0xa2;
constexpr uint64_t kMirror = 0xa3;

/// A channel of a picture within a sample.
struct Plane {
  float* pixels;
  int64_t height;
  int64_t width;
  float black;
};

/// A row moved to the right, or to the left when `by` is negative, from where it is to `to`.
void MoveRow(const float* from, float* to, int64_t by, const Plane& plane) {
  const int64_t kept = plane.width - std::abs(by);
  const int64_t first = std::max<int64_t>(by, 0);
  std::memmove(
      to + first, from - std::min<int64_t>(by, 0), static_cast<size_t>(kept) * sizeof(float));
  std::fill(to, to + first, plane.black);
  std::fill(to + first + kept, to + plane.width, plane.black);
}

/// In place: rows are taken in an order in which none is overwritten before it is read.
void Move(const Plane& plane, int64_t down, int64_t right) {
  for (int64_t i = 0; i < plane.height; ++i) {
    const int64_t y = down > 0 ? plane.height - 1 - i : i;
    float* const row = plane.pixels + y * plane.width;
    const int64_t source = y - down;
    if (source < 0 || source >= plane.height) {
      std::fill(row, row + plane.width, plane.black);
    } else {
      MoveRow(plane.pixels + source * plane.width, row, right, plane);
    }
  }
}

void Mirror(const Plane& plane) {
  for (int64_t y = 0; y < plane.height; ++y) {
    std::reverse(plane.pixels + y * plane.width, plane.pixels + (y + 1) * plane.width);
  }
}

class AugmentedSamples final : public Samples {
 public:
  AugmentedSamples(
      std::shared_ptr<const Samples> inner,
      const proto::AugmentConfig& config,
      const Shape& shape,
      std::vector<float> black)
      : inner_(std::move(inner)), config_(config), shape_(shape), black_(std::move(black)) {
    black_.resize(static_cast<size_t>(shape.channels));
  }

  Status Read(uint64_t sample, uint64_t draw, std::span<float> input, std::span<uint32_t> labels)
      const override {
    PS_TRY(inner_->Read(sample, draw, input, labels));
    const PictureMove move = MoveOf(draw);
    for (int64_t c = 0; c < shape_.channels; ++c) {
      const Plane plane{
          input.data() + c * shape_.height * shape_.width,
          shape_.height,
          shape_.width,
          black_[static_cast<size_t>(c)]};
      if (move.down != 0 || move.right != 0) {
        Move(plane, move.down, move.right);
      }
      if (move.is_mirrored != 0) {
        Mirror(plane);
      }
    }
    return Status::Ok();
  }

  const PictureFormat* pictures() const override { return inner_->pictures(); }

  Status ReadRaw(
      uint64_t sample,
      uint64_t draw,
      std::span<uint8_t> bytes,
      PictureMove* move,
      std::span<uint32_t> labels) const override {
    PS_TRY(inner_->ReadRaw(sample, draw, bytes, move, labels));
    *move = MoveOf(draw);
    return Status::Ok();
  }

 private:
  PictureMove MoveOf(uint64_t draw) const {
    const bool is_mirrored = config_.flip && (Mix64(draw ^ Mix64(kMirror)) >> 63) == 1;
    return {PlaceOf(draw, kMoveDown), PlaceOf(draw, kMoveRight), is_mirrored ? 1U : 0U};
  }

  /// From -crop to crop.
  int32_t PlaceOf(uint64_t draw, uint64_t stream) const {
    const uint64_t places = 2 * uint64_t{config_.crop} + 1;
    return static_cast<int32_t>(
        static_cast<int64_t>(Mix64(draw ^ Mix64(stream)) % places) - int64_t{config_.crop});
  }

  const std::shared_ptr<const Samples> inner_;
  const proto::AugmentConfig config_;
  const Shape shape_;
  std::vector<float> black_;
};

}  // namespace

Status CheckAugment(const proto::AugmentConfig& config, const Shape& shape) {
  if (!config.is_on()) {
    return Status::Ok();
  }
  if (shape.kind != ShapeKind::kImage || shape.is_flat()) {
    return Status::InvalidArgument(fmt::format(
        "data.augment changes pictures, and these samples are {}; allowed: leave it out",
        shape.ToString()));
  }
  const int64_t least = std::min(shape.height, shape.width);
  if (int64_t{config.crop} >= least) {
    return Status::InvalidArgument(fmt::format(
        "data.augment.crop is {}, and a picture is {}; allowed: up to {}",
        config.crop,
        shape.ToString(),
        least - 1));
  }
  return Status::Ok();
}

Status Augment(const proto::AugmentConfig& config, LoadedData* data) {
  PS_TRY(CheckAugment(config, data->info.shape));
  if (config.is_on()) {
    data->train = std::make_unique<AugmentedSamples>(
        std::move(data->train), config, data->info.shape, data->black);
  }
  return Status::Ok();
}

}  // namespace ps::worker
