#include "kernels/cuda/device/divide.cuh"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/launch.cuh"

namespace ps::kernels {
namespace {

/// One value. Neighbouring threads write neighbours and read few pieces of each plane.
template <typename Divisor>
struct PictureElement {
  explicit PictureElement(const PictureArgs& all)
      : args(all),
        channels(all.channels),
        columns(all.width + 2 * all.pad),
        rows(all.height + 2 * all.pad) {}

  __device__ void operator()(int64_t i) const {
    const auto [pixel, channel] = channels.Divide(static_cast<typename Divisor::Index>(i));
    const auto [line, column] = columns.Divide(pixel);
    const auto [picture, row] = rows.Divide(line);
    const int64_t out_width = args.width + 2 * args.pad;
    const PictureMove move = args.moves[picture];
    const auto straight = static_cast<int64_t>(column);
    const int64_t seen = move.is_mirrored != 0 ? out_width - 1 - straight : straight;
    const int64_t from_row = static_cast<int64_t>(row) - move.down - args.pad;
    const int64_t from = seen - move.right - args.pad;
    const bool is_inside =
        from_row >= 0 && from_row < args.height && from >= 0 && from < args.width;
    const int64_t plane =
        (static_cast<int64_t>(picture) * args.channels + static_cast<int64_t>(channel)) *
        args.height;
    const int64_t byte = is_inside ? args.bytes[(plane + from_row) * args.width + from] : 0;
    args.y[i] = args.values[static_cast<int64_t>(channel) * 256 + byte];
  }

  PictureArgs args;
  Divisor channels;
  Divisor columns;
  Divisor rows;
};

}  // namespace

cudaError_t PicturesOf(cudaStream_t stream, const PictureArgs& args) {
  const int64_t pixels = args.n * (args.height + 2 * args.pad) * (args.width + 2 * args.pad);
  const int64_t elements = pixels * args.channels;
  return WithDivisor(elements, [&]<typename Divisor>() {
    return ForEach(stream, elements, PictureElement<Divisor>(args));
  });
}

}  // namespace ps::kernels
