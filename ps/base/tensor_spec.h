#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ps {

/// How the initial values of a tensor are drawn.
enum class InitKind : uint8_t {
  kConstant = 0,  // every element = scale
  kNormal = 1,    // mean 0, standard deviation = scale
  kUniform = 2,   // in [-scale, scale)
};

/// What a server does with what is pushed to a tensor.
enum class UpdateRule : uint8_t {
  kOptimizer = 0,  // the push is a gradient; the job's optimizer applies it
  // The push is an observation x (batch-norm running statistics): w += average_rate * (x - w).
  kAverage = 1,
};

/// One named tensor of a model, f32, dense, row-major.
struct TensorSpec {
  std::string name;
  std::vector<int64_t> shape;
  InitKind init = InitKind::kConstant;
  float init_scale = 0;
  UpdateRule rule = UpdateRule::kOptimizer;
  float average_rate = 0;         // kAverage only, in (0, 1]
  bool has_weight_decay = false;  // biases and norms have none

  int64_t element_count() const {
    int64_t n = 1;
    for (const int64_t d : shape) {
      n *= d;
    }
    return n;
  }

  friend bool operator==(const TensorSpec&, const TensorSpec&) = default;
};

/// Writes the initial values of elements [begin, begin + out.size()) of tensor number `tensor`.
/// Value = f(seed, tensor, element) alone, so every chunking and every server gives the same model.
void InitializeTensor(
    const TensorSpec& spec, uint32_t tensor, uint64_t seed, int64_t begin, float* out, int64_t n);

}  // namespace ps
