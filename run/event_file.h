#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ps::run {

/// One value of a plot, as TensorBoard names it: "train/loss".
struct Scalar {
  std::string tag;
  float value = 0;
};

// Records of a TensorBoard event file: TFRecord framing (length, CRC-32C of the length, data,
// CRC-32C of the data, all little-endian, CRCs masked) around the protobuf message `Event` of
// tensorflow/core/util/event.proto. Only the fields that scalars need are written.

/// The first record of a file: which version of the format follows.
std::string EncodeEventVersion(double unix_s);

/// `scalars` at `step`. Requires: not empty.
std::string EncodeEvent(double unix_s, uint64_t step, const std::vector<Scalar>& scalars);

/// The name that TensorBoard looks for: "events.out.tfevents.1706702400.spotps".
std::string EventFileName(int64_t unix_micros);

}  // namespace ps::run
