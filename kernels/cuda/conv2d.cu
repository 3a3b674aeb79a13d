// The output of a convolution, and the gradient of its input: patches of x and of dy times weights.
//
// With a stride an input pixel meets only some places of the kernel: (ih+padding) % stride says
// which rows of it, and likewise for columns. Pixels that meet the same ones are a phase, and each
// phase is a product of its own. Weights are put into the order in which the products read them.

#include "kernels/cuda/conv2d.cuh"
#include "kernels/cuda/dense_factors.cuh"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/product.cuh"

namespace ps::kernels {
namespace {

/// How patches are cut out of images [samples, height, width, channels], a pixel of a map of
/// map_height x map_width for each. Pixels of a patch may be outside of the image.
struct Patching {
  int height;
  int width;
  int channels;
  int map_height;
  int map_width;
  int distance;   // of patches, in pixels
  int first_row;  // of the first patch
  int first_column;
  int step;      // from a pixel of a patch to the next; -1: back
  int tap_rows;  // pixels of a patch
  int tap_columns;
};

/// Lines are patches, in the order of their map; the depth is (row, column, channel) of a patch.
/// is_vector: channels are a multiple of four, and fours are aligned.
template <bool is_vector>
struct Patches {
  static constexpr Lies kLies = Lies::kAlongDepth;

  struct Line {
    const float* image;
    int row;
    int column;
  };

  struct Place {
    int row;
    int column;
    int channel;
  };

  __device__ Line AtLine(int64_t line) const {
    const int map = how.map_height * how.map_width;
    const int sample = static_cast<int>(line / map);
    const int pixel = static_cast<int>(line % map);
    if (line >= lines) {
      return {images, kOutside, 0};
    }
    return {
        images + int64_t{sample} * how.height * how.width * how.channels,
        pixel / how.map_width * how.distance + how.first_row,
        pixel % how.map_width * how.distance + how.first_column};
  }

  __device__ Place AtPlace(int64_t k) const {
    Place place{0, 0, 0};
    Advance(&place, static_cast<int>(k));
    return place;
  }

  __device__ void Advance(Place* place, int by = kProductDepth) const {
    place->channel += by;
    while (place->channel >= how.channels) {
      place->channel -= how.channels;
      if (++place->column == how.tap_columns) {
        place->column = 0;
        ++place->row;
      }
    }
  }

  /// Where the image has it; nullptr: outside.
  __device__ const float* Find(const Line& line, const Place& place) const {
    const int row = line.row + how.step * place.row;
    const int column = line.column + how.step * place.column;
    return place.row < how.tap_rows
               ? ValueAt(
                     line.image, how.height, how.width, how.channels, row, column, place.channel)
               : nullptr;
  }

  __device__ float4 Load(const Line& line, Place place) const {
    if constexpr (is_vector) {
      const float* const at = Find(line, place);
      return at == nullptr ? float4{} : *reinterpret_cast<const float4*>(at);
    } else {
      float values[4];
      PS_UNROLL
      for (float& value : values) {
        const float* const at = Find(line, place);
        value = at == nullptr ? 0.0F : *at;
        Advance(&place, 1);
      }
      return {values[0], values[1], values[2], values[3]};
    }
  }

  Patching how;
  const float* images;
  int64_t lines;
};

/// The patches of a phase, where their sums go, and their weights.
struct Phase {
  /// The pixel that the sum over patch `line` is for.
  __device__ int64_t PixelOf(int64_t line, const ConvShape& shape) const {
    if (distance == 1) {
      return line;
    }
    const int map = how.map_height * how.map_width;
    const int of_map = static_cast<int>(line % map);
    const int64_t in_row = of_map / how.map_width * distance + row;
    const int64_t in_column = of_map % how.map_width * distance + column;
    return (line / map * shape.options.in_height + in_row) * shape.options.in_width + in_column;
  }

  Patching how;
  int64_t lines;
  int64_t weights_at;  // where its weights begin, behind those of earlier phases
  int distance;        // of pixels that are written, in both directions
  int row;             // the first of them
  int column;
};

/// One of the first two products: patches of `from` times weights.
struct PatchProduct {
  __device__ Phase At(int phase) const {
    const int stride = static_cast<int>(shape.options.stride);
    const int padding = static_cast<int>(shape.options.padding);
    const int kernel = static_cast<int>(shape.options.kernel);
    const int in_height = static_cast<int>(shape.options.in_height);
    const int in_width = static_cast<int>(shape.options.in_width);
    const int out_height = static_cast<int>(shape.out_height);
    const int out_width = static_cast<int>(shape.out_width);
    Phase at{};
    at.how.channels = static_cast<int>(channels());
    if (is_backward) {
      const int row = phase / stride;
      const int column = phase % stride;
      at.how.height = out_height;
      at.how.width = out_width;
      at.how.map_height = (in_height - row + stride - 1) / stride;
      at.how.map_width = (in_width - column + stride - 1) / stride;
      at.how.distance = 1;
      at.how.first_row = (row + padding) / stride;
      at.how.first_column = (column + padding) / stride;
      at.how.step = -1;
      at.how.tap_rows = Taps((row + padding) % stride);
      at.how.tap_columns = Taps((column + padding) % stride);
      int before = 0;  // places of the kernel
      for (int other = 0; other < row; ++other) {
        before += Taps((other + padding) % stride) * kernel;
      }
      for (int other = 0; other < column; ++other) {
        before += at.how.tap_rows * Taps((other + padding) % stride);
      }
      at.weights_at = before * shape.options.in_channels * shape.options.out_channels;
      at.distance = stride;
      at.row = row;
      at.column = column;
    } else {
      at.how.height = in_height;
      at.how.width = in_width;
      at.how.map_height = out_height;
      at.how.map_width = out_width;
      at.how.distance = stride;
      at.how.first_row = -padding;
      at.how.first_column = -padding;
      at.how.step = 1;
      at.how.tap_rows = kernel;
      at.how.tap_columns = kernel;
      at.distance = 1;
    }
    at.lines = shape.n * at.how.map_height * at.how.map_width;
    return at;
  }

  /// Places of the kernel in one direction, from `first` on.
  __host__ __device__ int Taps(int first) const {
    const int kernel = static_cast<int>(shape.options.kernel);
    const int stride = static_cast<int>(shape.options.stride);
    return first < kernel ? (kernel - first + stride - 1) / stride : 0;
  }

  __host__ __device__ int64_t channels() const {
    return is_backward ? shape.options.out_channels : shape.options.in_channels;
  }

  __host__ __device__ int64_t columns() const {
    return is_backward ? shape.options.in_channels : shape.options.out_channels;
  }

  ConvShape shape;
  bool is_backward;
  const float* from;
  const float* weights;  // of each phase [columns, row, column, channel]
  const float* bias;
  Activation activation;
  float* to;
};

template <Precision precision, typename Size, bool is_vector>
__global__ void __launch_bounds__(Size::kThreads, kBlocksAtOnce<precision, Size>)
    PatchProductKernel(PatchProduct product) {
  const Phase phase = product.At(static_cast<int>(blockIdx.z));
  const int64_t first_row = static_cast<int64_t>(blockIdx.x) * Size::kRows;
  const int64_t first_column = static_cast<int64_t>(blockIdx.y) * Size::kColumns;
  if (first_row >= phase.lines) {
    return;
  }
  const int64_t columns = product.columns();
  const int64_t depth = int64_t{phase.how.tap_rows} * phase.how.tap_columns * phase.how.channels;
  const Patches<is_vector> a{phase.how, product.from, phase.lines};
  const AlongDepth b{product.weights + phase.weights_at, columns, depth, depth, is_vector};
  const float* const bias = product.bias;
  const Activation activation = product.activation;
  Product<precision, Size>(first_row, first_column, 0, depth, a, b, [&](int64_t row) {
    float* const to =
        row < phase.lines ? product.to + phase.PixelOf(row, product.shape) * columns : nullptr;
    return [to, columns, bias, activation](int64_t column, float sum) {
      if (to != nullptr && column < columns) {
        to[column] = Activated(activation, bias == nullptr ? sum : sum + bias[column]);
      }
    };
  });
}

/// Element i of the weights as a product reads them, from w [o,i,kh,kw].
struct ArrangeWeight {
  __device__ void operator()(int64_t i) const {
    const Conv2dOptions& o = product.shape.options;
    const int phases = product.is_backward ? static_cast<int>(o.stride * o.stride) : 1;
    int phase = 0;
    Phase at = product.At(0);
    while (phase + 1 < phases) {
      const Phase next = product.At(phase + 1);
      if (i < next.weights_at) {
        break;
      }
      at = next;
      ++phase;
    }
    const int64_t own = i - at.weights_at;
    const int64_t channel = own % at.how.channels;
    const int64_t tap = own / at.how.channels % (at.how.tap_rows * at.how.tap_columns);
    const int64_t column = own / at.how.channels / (at.how.tap_rows * at.how.tap_columns);
    int64_t kernel_row = tap / at.how.tap_columns;
    int64_t kernel_column = tap % at.how.tap_columns;
    if (product.is_backward) {
      kernel_row = kernel_row * o.stride + (at.row + o.padding) % o.stride;
      kernel_column = kernel_column * o.stride + (at.column + o.padding) % o.stride;
    }
    const int64_t out_channel = product.is_backward ? channel : column;
    const int64_t in_channel = product.is_backward ? column : channel;
    arranged[i] =
        w[((out_channel * o.in_channels + in_channel) * o.kernel + kernel_row) * o.kernel +
          kernel_column];
  }

  PatchProduct product;
  const float* w;
  float* arranged;
};

template <typename Size, bool is_vector>
cudaError_t RunPatchProduct(cudaStream_t stream, const PatchProduct& product, dim3 lines) {
  const dim3 grid(
      static_cast<unsigned>(DivideUp(lines.x, Size::kRows)),
      static_cast<unsigned>(DivideUp(product.columns(), Size::kColumns)),
      lines.z);
  return Launch(
      stream,
      grid,
      dim3(Size::kThreads),
      product.shape.options.precision == Precision::kBf16
          ? &PatchProductKernel<Precision::kBf16, Size, is_vector>
          : &PatchProductKernel<Precision::kF32, Size, is_vector>,
      product);
}

/// Puts the weights in order and multiplies.
cudaError_t Run(cudaStream_t stream, PatchProduct product, const float* w, float* arranged) {
  const Conv2dOptions& o = product.shape.options;
  product.weights = arranged;
  const cudaError_t error =
      ForEach(stream, o.out_channels * Taps(o), ArrangeWeight{product, w, arranged});
  if (error != cudaSuccess) {
    return error;
  }
  // Lines of the largest phase, and phases.
  dim3 lines(static_cast<unsigned>(OutputPixels(product.shape)));
  if (product.is_backward) {
    lines.x = static_cast<unsigned>(
        product.shape.n * DivideUp(o.in_height, o.stride) * DivideUp(o.in_width, o.stride));
    lines.z = static_cast<unsigned>(o.stride * o.stride);
  }
  if (product.channels() % 4 != 0 || !AreFoursAligned(product.from)) {
    return RunPatchProduct<Tile64x64, false>(stream, product, lines);
  }
  const int64_t columns = product.columns();
  const int64_t tiles_down = DivideUp(lines.x, 128) * lines.z;
  if (columns <= 16) {
    return RunPatchProduct<Tile128x16, true>(stream, product, lines);
  }
  if (columns <= 32) {
    return RunPatchProduct<Tile128x32, true>(stream, product, lines);
  }
  if (columns > 64 && tiles_down * DivideUp(columns, 128) >= kConvBlocks) {
    return RunPatchProduct<Tile128x128, true>(stream, product, lines);
  }
  if (tiles_down * DivideUp(columns, 64) >= kConvBlocks) {
    return RunPatchProduct<Tile128x64, true>(stream, product, lines);
  }
  return RunPatchProduct<Tile64x64, true>(stream, product, lines);
}

}  // namespace

int64_t ConvWeightCount(const ConvShape& shape) {
  return shape.options.out_channels * Taps(shape.options);
}

cudaError_t ConvForward(
    cudaStream_t stream,
    const ConvShape& shape,
    const float* x,
    const float* w,
    const float* bias,
    float* scratch,
    float* y) {
  return Run(
      stream,
      {.shape = shape,
       .is_backward = false,
       .from = x,
       .weights = nullptr,
       .bias = bias,
       .activation = shape.options.activation,
       .to = y},
      w,
      scratch);
}

cudaError_t ConvInputGradient(
    cudaStream_t stream,
    const ConvShape& shape,
    const float* dy,
    const float* w,
    float* scratch,
    float* dx) {
  return Run(
      stream,
      {.shape = shape,
       .is_backward = true,
       .from = dy,
       .weights = nullptr,
       .bias = nullptr,
       .activation = Activation::kNone,
       .to = dx},
      w,
      scratch);
}

}  // namespace ps::kernels
