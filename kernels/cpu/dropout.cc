#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/ops.h"
#include "ps/base/check.h"
#include "ps/base/random.h"

namespace ps::kernels {
namespace {

class Dropout final : public Op {
 public:
  explicit Dropout(const DropoutOptions& options)
      : options_(options),
        threshold_(static_cast<uint64_t>(std::ldexp(static_cast<double>(options.rate), 32))),
        scale_(1.0F / (1.0F - options.rate)) {}

  Status Prepare(int64_t n, bool training) override {
    const auto size = static_cast<size_t>(n * options_.elements);
    if (training && factors_.size() < size) {
      factors_.resize(size);
    }
    return Status::Ok();
  }

  void Forward(const ForwardArgs& args) override {
    const int64_t size = args.n * options_.elements;
    if (!args.training) {
      if (args.x != args.y) {
        std::copy_n(args.x, size, args.y);
      }
      return;
    }
    PS_CHECK(static_cast<size_t>(size) <= factors_.size()) << "dropout was not prepared";
    // CounterRandom's first two rounds depend on the step only, so they are taken out of the loop.
    // The result's two halves serve two elements.
    const uint64_t key = Mix64(Mix64(Mix64(options_.seed) ^ options_.layer) ^ *args.step);
    for (int64_t i = 0; i < size; i += 2) {
      const uint64_t bits = Mix64(key ^ static_cast<uint64_t>(i));
      factors_[static_cast<size_t>(i)] = (bits >> 32) < threshold_ ? 0.0F : scale_;
      if (i + 1 < size) {
        factors_[static_cast<size_t>(i) + 1] = (bits & 0xffffffffU) < threshold_ ? 0.0F : scale_;
      }
    }
    Multiply(args.x, args.y, size);
  }

  void Backward(const BackwardArgs& args) override {
    PS_CHECK(args.dx != nullptr) << "dropout has only its input's gradient to compute";
    Multiply(args.dy, args.dx, args.n * options_.elements);
  }

  OpTraits traits() const override { return {.runs_in_place = true}; }

 private:
  void Multiply(const float* from, float* to, int64_t size) const {
    const float* factors = factors_.data();
    for (int64_t i = 0; i < size; ++i) {
      to[i] = from[i] * factors[i];
    }
  }

  const DropoutOptions options_;
  const uint64_t threshold_;  // of 32 random bits: below it, the element is dropped
  const float scale_;
  std::vector<float> factors_;  // of the last training batch: 0 or scale_
};

}  // namespace

std::unique_ptr<Op> MakeDropout(const DropoutOptions& options) {
  return std::make_unique<Dropout>(options);
}

}  // namespace ps::kernels
