#include "ps/base/tensor_spec.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "gtest/gtest.h"

namespace ps {
namespace {

TensorSpec Spec(InitKind kind, float scale) {
  TensorSpec spec;
  spec.name = "w";
  spec.shape = {100, 100};
  spec.init = kind;
  spec.init_scale = scale;
  return spec;
}

std::vector<float> Values(const TensorSpec& spec, uint32_t tensor, uint64_t seed) {
  std::vector<float> values(static_cast<size_t>(spec.element_count()));
  InitializeTensor(spec, tensor, seed, 0, values.data(), spec.element_count());
  return values;
}

TEST(TensorSpecTest, ElementCountIsTheProductOfTheShape) {
  TensorSpec spec;
  EXPECT_EQ(spec.element_count(), 1);
  spec.shape = {3, 4, 5};
  EXPECT_EQ(spec.element_count(), 60);
  spec.shape = {3, 0};
  EXPECT_EQ(spec.element_count(), 0);
  spec.shape = {1 << 20, 1 << 20};
  EXPECT_EQ(spec.element_count(), int64_t{1} << 40);
}

TEST(InitializeTensorTest, AnyChunkingGivesTheSameTensor) {
  for (const InitKind kind : {InitKind::kConstant, InitKind::kNormal, InitKind::kUniform}) {
    const TensorSpec spec = Spec(kind, 0.5F);
    const std::vector<float> whole = Values(spec, 3, 11);
    for (const int64_t chunk : {int64_t{1}, int64_t{7}, int64_t{4096}}) {
      std::vector<float> parts(whole.size());
      const int64_t n = spec.element_count();
      for (int64_t begin = 0; begin < n; begin += chunk) {
        const int64_t size = std::min(chunk, n - begin);
        InitializeTensor(spec, 3, 11, begin, parts.data() + begin, size);
      }
      ASSERT_EQ(parts, whole) << "kind " << static_cast<int>(kind) << " chunk " << chunk;
    }
  }
}

TEST(InitializeTensorTest, SeedsAndTensorsDiffer) {
  const TensorSpec spec = Spec(InitKind::kNormal, 1);
  EXPECT_EQ(Values(spec, 0, 1), Values(spec, 0, 1));
  EXPECT_NE(Values(spec, 0, 1), Values(spec, 0, 2));
  EXPECT_NE(Values(spec, 0, 1), Values(spec, 1, 1));
}

TEST(InitializeTensorTest, ConstantIsItsScale) {
  for (const float v : Values(Spec(InitKind::kConstant, 0.25F), 0, 1)) {
    ASSERT_EQ(v, 0.25F);
  }
}

TEST(InitializeTensorTest, NormalHasMeanZeroAndTheScaleAsDeviation) {
  double sum = 0;
  double squares = 0;
  const std::vector<float> values = Values(Spec(InitKind::kNormal, 2), 0, 5);
  for (const float v : values) {
    ASSERT_TRUE(std::isfinite(v));
    sum += v;
    squares += double{v} * v;
  }
  const auto n = static_cast<double>(values.size());
  EXPECT_NEAR(sum / n, 0, 0.1);
  EXPECT_NEAR(std::sqrt(squares / n), 2, 0.1);
}

TEST(InitializeTensorTest, UniformFillsItsInterval) {
  float least = 1;
  float greatest = -1;
  for (const float v : Values(Spec(InitKind::kUniform, 0.1F), 0, 5)) {
    ASSERT_GE(v, -0.1F);
    ASSERT_LE(v, 0.1F);
    least = std::min(least, v);
    greatest = std::max(greatest, v);
  }
  EXPECT_LT(least, -0.099F);
  EXPECT_GT(greatest, 0.099F);
}

TEST(InitializeTensorTest, NoElementsWriteNothing) {
  InitializeTensor(Spec(InitKind::kNormal, 1), 0, 1, 5, nullptr, 0);
}

}  // namespace
}  // namespace ps
