#include <algorithm>
#include <limits>

#include "kernels/cpu/ops.h"
#include "ps/base/check.h"

namespace ps::kernels {
namespace {

constexpr float kNoToken = std::numeric_limits<float>::quiet_NaN();

class Embedding final : public Op {
 public:
  explicit Embedding(const EmbeddingOptions& options) : o_(options) {}

  Status Prepare(int64_t /*n*/, bool /*training*/) override { return Status::Ok(); }

  void Forward(const ForwardArgs& args) override {
    const float* table = args.params[0].data();
    for (int64_t row = 0; row < args.n * o_.length; ++row) {
      float* y = args.y + row * o_.width;
      if (!IsToken(args.x[row])) {
        std::fill_n(y, o_.width, kNoToken);
        continue;
      }
      const float* vector = table + static_cast<int64_t>(args.x[row]) * o_.width;
      if (!o_.positions) {
        std::copy_n(vector, o_.width, y);
        continue;
      }
      const float* position = args.params[1].data() + row % o_.length * o_.width;
      for (int64_t i = 0; i < o_.width; ++i) {
        y[i] = vector[i] + position[i];
      }
    }
  }

  void Backward(const BackwardArgs& args) override {
    PS_CHECK(args.dx == nullptr) << "tokens have no gradient";
    for (const std::span<float> grad : args.grads) {
      std::fill(grad.begin(), grad.end(), 0.0F);
    }
    for (int64_t row = 0; row < args.n * o_.length; ++row) {
      if (!IsToken(args.x[row])) {
        continue;
      }
      const float* dy = args.dy + row * o_.width;
      Accumulate(dy, args.grads[0].data() + static_cast<int64_t>(args.x[row]) * o_.width);
      if (o_.positions) {
        Accumulate(dy, args.grads[1].data() + row % o_.length * o_.width);
      }
    }
  }

  OpTraits traits() const override { return {}; }

 private:
  bool IsToken(float x) const { return x >= 0 && x < static_cast<float>(o_.vocabulary); }

  void Accumulate(const float* dy, float* sum) const {
    for (int64_t i = 0; i < o_.width; ++i) {
      sum[i] += dy[i];
    }
  }

  const EmbeddingOptions o_;
};

}  // namespace

std::unique_ptr<Op> MakeEmbedding(const EmbeddingOptions& options) {
  return std::make_unique<Embedding>(options);
}

}  // namespace ps::kernels
