#include "worker/model/batch_check.h"

#include <fmt/core.h>

#include <bit>
#include <cmath>

#include "kernels/loss.h"

namespace ps::worker {
namespace {

static_assert(kNoLabel == kernels::kNoLabel);

/// Instead of the images' values there are the bytes of as many pictures.
Status CheckPictures(const PictureFormat& format, const Batch& batch, int64_t n) {
  if (batch.images.empty() && static_cast<int64_t>(batch.moves.size()) == n &&
      static_cast<int64_t>(batch.bytes.size()) == n * format.byte_count()) {
    return Status::Ok();
  }
  return Status::InvalidArgument(fmt::format(
      "{} bytes, {} moves and {} image values for {} pictures of {} bytes each",
      batch.bytes.size(),
      batch.moves.size(),
      batch.images.size(),
      n,
      format.byte_count()));
}

Status CheckLabels(const Model& model, std::span<const uint32_t> labels) {
  for (const uint32_t label : labels) {
    if (!HasClasses(model.loss.kind)) {
      const auto target = std::bit_cast<float>(label);
      const bool is_label = target >= 0 && target <= 1;
      if (!std::isfinite(target) || (model.loss.kind == kernels::LossKind::kBce && !is_label)) {
        return Status::InvalidArgument(fmt::format("target {}", target));
      }
    } else if (label >= model.classes && !(label == kNoLabel && model.labels > 1)) {
      return Status::InvalidArgument(fmt::format("label {} of {} classes", label, model.classes));
    }
  }
  return Status::Ok();
}

}  // namespace

Status CheckBatch(
    const Model& model, const PictureFormat* pictures, const Batch& batch, int64_t n) {
  if (batch.labels.empty()) {
    return Status::InvalidArgument("an empty batch");
  }
  const int64_t values = pictures == nullptr ? n * model.input.element_count() : 0;
  if (static_cast<int64_t>(batch.labels.size()) != n * model.labels ||
      static_cast<int64_t>(batch.images.size()) != values) {
    return Status::InvalidArgument(fmt::format(
        "{} image values for {} samples of {}", batch.images.size(), n, model.input.ToString()));
  }
  if (pictures != nullptr) {
    PS_TRY(CheckPictures(*pictures, batch, n));
  }
  PS_TRY(CheckLabels(model, batch.labels));
  if (model.input.kind != ShapeKind::kTokens) {
    return Status::Ok();
  }
  const auto vocabulary = static_cast<float>(model.input.vocabulary);
  for (const float token : batch.images) {
    if (!(token >= 0 && token < vocabulary)) {
      return Status::InvalidArgument(
          fmt::format("token {} of a vocabulary of {}", token, model.input.vocabulary));
    }
  }
  return Status::Ok();
}

}  // namespace ps::worker
