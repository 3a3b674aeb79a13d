#pragma once

#include <cstdint>

#include "kernels/device_code.h"
#include "kernels/op.h"

// An op in kernels/ops is written once for all devices. Its options name it:
//
//   struct KOptions { template <typename Device> using On = KOp<Device>; ... };
//
// and KOp<Device> is an Op that is made of (options, device), with whose functions it does its work
// in order:
//
//   Device::Floats                    memory that the op keeps, with floats()
//   Grow(floats, &memory)             makes it hold so many; what it held is lost when it grows
//   ReserveScratch(floats), scratch() the same of the stream's, which the next op may overwrite
//   ForEach(n, f)                     f(i) for i in [0, n), in any order
//   ForChannels(shape, f)             f(i, row, c) for each element i of [n, positions, channels],
//                                     row = its sample * channels + c
//   SumPositions<each>(shape, f, sums)
//                                     sums [each, n, channels]: over the positions, in a fixed
//                                     order, of what f(i, row, c, values) puts into values[each]
//
// Functions of elements are structs with a PS_ELEMENTWISE operator(), copied to the device. An op
// that models spend much time in is worth kernels of its own in kernels/cpu and kernels/cuda.

namespace ps::kernels {

/// The shape of an activation, NHWC with h * w positions.
struct ChannelShape {
  int64_t count() const { return n * positions * channels; }

  int64_t n = 0;
  int64_t positions = 0;
  int64_t channels = 0;
};

/// Options whose op is written so.
template <typename Options>
concept PortableOptions = requires {
  Options::kIsPortable;
};

/// What kernels/ops has.
template <typename... Options>
struct PortableOps {};

}  // namespace ps::kernels
