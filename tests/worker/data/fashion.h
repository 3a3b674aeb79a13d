#pragma once

#include <cstdint>

#include "tests/worker/data/data_files.h"
#include "worker/data/image_files.h"

namespace ps::worker::test {

/// Where Debian's package dataset-fashion-mnist has it.
inline constexpr char kFashion[] = "/usr/share/datasets/fashion-mnist";

bool HasFashion();

/// The first pictures of Fashion-MNIST, 32 x 32 with black around them, or each square of `shrink`
/// x `shrink` of those as its mean: a deep model costs by the pixel. Requires: it is there.
LabeledImages ShrunkFashion(int64_t shrink, uint64_t count);

/// The same as the four IDX files of a data set.
void WriteFashion(const DataFolder& folder, int64_t shrink, uint64_t count);

/// The same as the six files of CIFAR-10: 32 x 32, grey in three colours.
void WriteFashionAsCifar(const DataFolder& folder, uint64_t count);

}  // namespace ps::worker::test
