#include "ps/client/gradient_encoder.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "ps/codec/encoding.h"
#include "ps/proto/chunks.h"

namespace ps::client {
namespace {

/// Several sums beside each other: vector code has that many lanes.
double SquaresOf(std::span<const float> values) {
  constexpr size_t kLanes = 8;
  constexpr size_t kRun = 4096;  // in f32, so that no sum gets large
  double sum = 0;
  while (!values.empty()) {
    const std::span<const float> run = values.first(std::min(values.size(), kRun));
    std::array<float, kLanes> lanes{};
    size_t i = 0;
    for (; i + kLanes <= run.size(); i += kLanes) {
      for (size_t lane = 0; lane < kLanes; ++lane) {
        lanes[lane] += run[i + lane] * run[i + lane];
      }
    }
    for (; i < run.size(); ++i) {
      lanes[0] += run[i] * run[i];
    }
    for (const float lane : lanes) {
      sum += double{lane};
    }
    values = values.subspan(run.size());
  }
  return sum;
}

}  // namespace

GradientEncoder::GradientEncoder(const ChunkLayout& layout, size_t frame_bytes, bool has_feedback)
    : frame_bytes_(frame_bytes), tensors_(layout.tensor_count()) {
  Change(layout, has_feedback);
}

void GradientEncoder::Change(const ChunkLayout& layout, bool has_feedback) {
  has_feedback_ = has_feedback;
  for (Tensor& tensor : tensors_) {
    tensor.parts.clear();
    tensor.is_lossy = false;
  }
  const proto::ChunkParts parts(frame_bytes_);
  bool is_any_lossy = false;
  for (const ChunkLayout::Chunk& chunk : layout.chunks()) {
    Tensor& tensor = tensors_[TensorOf(chunk.key)];
    tensor.is_lossy = tensor.is_lossy || chunk.encoding.is_lossy();
    is_any_lossy = is_any_lossy || chunk.encoding.is_lossy();
    if (!chunk.encoding.is_lossy() && !tensor.is_kept) {
      continue;
    }
    for (uint32_t part = 0; part < parts.CountOf(chunk.element_count); ++part) {
      const auto [begin, count] = parts.At(chunk.element_count, part);
      tensor.parts.push_back(
          {chunk.encoding,
           static_cast<size_t>(chunk.offset) + begin,
           count,
           chunk.GradientAt(begin)});
    }
  }
  // As bf16 the bytes of a part lie on values of earlier ones, which are to be read before.
  for (Tensor& tensor : tensors_) {
    std::ranges::sort(tensor.parts, {}, &Part::offset);
  }
  if (has_feedback && is_any_lossy && residual_.size() == 0) {
    residual_ = Buffer(static_cast<size_t>(layout.element_count()) * sizeof(float));
    std::ranges::fill(residual_.floats(), 0.0F);
  }
}

void GradientEncoder::Encode(uint32_t tensor, std::span<float> gradient) {
  Tensor& its = tensors_[tensor];
  const std::span<std::byte> bytes = std::as_writable_bytes(gradient);
  const bool is_kept = its.is_kept || (has_feedback_ && its.is_lossy);
  for (const Part& part : its.parts) {
    const std::span<float> values = gradient.subspan(part.offset, part.count);
    const std::span<float> kept = is_kept ? KeptOf(part) : std::span<float>();
    gradient_squares_ += is_kept ? SquaresOf(values) : 0;
    codec::Encode(
        part.encoding, values, kept, bytes.subspan(part.place, part.encoding.SizeOf(part.count)));
    kept_squares_ += SquaresOf(kept);
  }
  if (has_feedback_ && its.is_lossy) {
    its.is_kept = true;
  } else if (its.is_kept) {
    Forget(&its);
  }
}

void GradientEncoder::HandOver(uint32_t tensor, FlatGradient* gradient) {
  Tensor& its = tensors_[tensor];
  const bool is_lossy_and_kept = its.is_lossy && (its.is_kept || has_feedback_);
  if (!is_lossy_and_kept) {
    Encode(tensor, gradient->floats());  // as f32 it takes along what is kept all the same
    return;
  }
  for (const Part& part : its.parts) {
    const std::span<float> values = gradient->floats().subspan(part.offset, part.count);
    gradient_squares_ += SquaresOf(values);
    codec::Encode({}, values, KeptOf(part), std::as_writable_bytes(values));
    kept_squares_ += SquaresOf(KeptOf(part));
  }
  gradient->SetWhole(tensor);
  Forget(&its);
}

void GradientEncoder::Forget(Tensor* tensor) {
  for (const Part& part : tensor->parts) {
    std::ranges::fill(KeptOf(part), 0.0F);
  }
  tensor->is_kept = false;
  if (!tensor->is_lossy) {
    tensor->parts.clear();
  }
  const auto is_needed = [this](const Tensor& other) {
    return other.is_kept || (has_feedback_ && other.is_lossy);
  };
  if (std::ranges::none_of(tensors_, is_needed)) {
    residual_ = Buffer();
  }
}

double GradientEncoder::TakeHeldBack() {
  const double share = std::sqrt(kept_squares_ / gradient_squares_);
  gradient_squares_ = 0;
  kept_squares_ = 0;
  return std::isfinite(share) ? share : 0;
}

}  // namespace ps::client
