#include "kernels/cpu/pictures.h"

namespace ps::kernels {
namespace {

/// One channel of one picture.
void MakePlane(
    const PictureArgs& args,
    const PictureMove& move,
    const uint8_t* bytes,
    const float* values,
    float* y) {
  const int64_t out_height = args.height + 2 * args.pad;
  const int64_t out_width = args.width + 2 * args.pad;
  for (int64_t row = 0; row < out_height; ++row) {
    const int64_t from_row = row - move.down - args.pad;
    const bool is_row = from_row >= 0 && from_row < args.height;
    for (int64_t column = 0; column < out_width; ++column) {
      const int64_t seen = move.is_mirrored != 0 ? out_width - 1 - column : column;
      const int64_t from = seen - move.right - args.pad;
      const bool is_inside = is_row && from >= 0 && from < args.width;
      *y = values[is_inside ? bytes[from_row * args.width + from] : 0];
      y += args.channels;
    }
  }
}

}  // namespace

void MakePictures(const PictureArgs& args) {
  const int64_t plane = args.height * args.width;
  const int64_t out_plane = (args.height + 2 * args.pad) * (args.width + 2 * args.pad);
  for (int64_t i = 0; i < args.n; ++i) {
    for (int64_t c = 0; c < args.channels; ++c) {
      MakePlane(
          args,
          args.moves[i],
          args.bytes + (i * args.channels + c) * plane,
          args.values + c * 256,
          args.y + i * out_plane * args.channels + c);
    }
  }
}

}  // namespace ps::kernels
