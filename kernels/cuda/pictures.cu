#include "kernels/cuda/kernels.h"
#include "kernels/cuda/launch.cuh"

namespace ps::kernels {
namespace {

/// One value. Neighbouring threads write neighbours and read few pieces of each plane.
struct PictureElement {
  __device__ void operator()(int64_t i) const {
    const int64_t out_width = args.width + 2 * args.pad;
    const int64_t out_height = args.height + 2 * args.pad;
    const int64_t channel = i % args.channels;
    const int64_t column = i / args.channels % out_width;
    const int64_t row = i / args.channels / out_width % out_height;
    const int64_t picture = i / args.channels / out_width / out_height;
    const PictureMove move = args.moves[picture];
    const int64_t seen = move.is_mirrored != 0 ? out_width - 1 - column : column;
    const int64_t from_row = row - move.down - args.pad;
    const int64_t from = seen - move.right - args.pad;
    const bool is_inside =
        from_row >= 0 && from_row < args.height && from >= 0 && from < args.width;
    const int64_t plane = (picture * args.channels + channel) * args.height;
    const int64_t byte = is_inside ? args.bytes[(plane + from_row) * args.width + from] : 0;
    args.y[i] = args.values[channel * 256 + byte];
  }

  PictureArgs args;
};

}  // namespace

cudaError_t PicturesOf(cudaStream_t stream, const PictureArgs& args) {
  const int64_t pixels = args.n * (args.height + 2 * args.pad) * (args.width + 2 * args.pad);
  return ForEach(stream, pixels * args.channels, PictureElement{args});
}

}  // namespace ps::kernels
