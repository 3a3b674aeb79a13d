// Convolution as a product of matrices that are never written down. With s a sample, (kh,kw) a
// place in the kernel, i an input channel and o an output channel:
//
//   forward           y[(s,oh,ow), o] = sum over (kh,kw,i) of patch * w, the patch being
//                     x[s, oh*stride+kh-padding, ow*stride+kw-padding, i], 0 outside of the image
//   input's gradient  dx[(s,ih,iw), i] = sum over (kh,kw,o) of dy[s,oh,ow,o] * w, where
//                     oh*stride = ih+padding-kh, 0 where there is no such oh
//   weights' gradient dw[o, (kh,kw,i)] = sum over (s,oh,ow) of dy * patch. The sum is long and dw
//                     small, so blocks share it, and their parts are added up in order.

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/product.cuh"

namespace ps::kernels {
namespace {

/// A position in the kernel and a channel, of `channels`.
struct Tap {
  __device__ static Tap At(int64_t k, int64_t kernel, int64_t channels) {
    return {k / (channels * kernel), k / channels % kernel, k % channels};
  }

  int64_t kh;
  int64_t kw;
  int64_t channel;
};

/// Where in w [o,i,kh,kw].
__device__ int64_t
WeightAt(const Conv2dOptions& o, int64_t out_channel, int64_t in_channel, const Tap& tap) {
  return ((out_channel * o.in_channels + in_channel) * o.kernel + tap.kh) * o.kernel + tap.kw;
}

/// The image position that the kernel's corner has for an output pixel; may be negative.
struct Corner {
  __device__ static Corner At(int64_t pixel, const ConvShape& shape) {
    const Conv2dOptions& o = shape.options;
    return {
        pixel / (shape.out_height * shape.out_width),
        pixel / shape.out_width % shape.out_height * o.stride - o.padding,
        pixel % shape.out_width * o.stride - o.padding};
  }

  int64_t sample;
  int64_t row;
  int64_t column;
};

__device__ float PatchValue(
    const Conv2dOptions& o, const float* x, const Corner& corner, const Tap& tap) {
  const int64_t row = corner.row + tap.kh;
  const int64_t column = corner.column + tap.kw;
  const bool is_inside = row >= 0 && row < o.in_height && column >= 0 && column < o.in_width;
  return is_inside ? x[((corner.sample * o.in_height + row) * o.in_width + column) * o.in_channels +
                       tap.channel]
                   : 0.0F;
}

/// Rows are output pixels, depth is (kh,kw,i).
struct Patches {
  using Row = Corner;
  using Depth = Tap;

  __device__ Row AtRow(int64_t row) const { return Corner::At(row, shape); }

  __device__ Depth AtDepth(int64_t k) const {
    return Tap::At(k, shape.options.kernel, shape.options.in_channels);
  }

  __device__ float Load(const Row& row, const Depth& tap) const {
    return PatchValue(shape.options, x, row, tap);
  }

  ConvShape shape;
  const float* x;
};

/// Depth is (kh,kw,i), columns are output channels.
struct ForwardWeights {
  using Column = int64_t;
  using Depth = Tap;

  __device__ Column AtColumn(int64_t column) const { return column; }

  __device__ Depth AtDepth(int64_t k) const {
    return Tap::At(k, shape.options.kernel, shape.options.in_channels);
  }

  __device__ float Load(const Depth& tap, Column column) const {
    return w[WeightAt(shape.options, column, tap.channel, tap)];
  }

  ConvShape shape;
  const float* w;
};

struct StoreOutput {
  __device__ void operator()(int64_t row, int64_t column, float sum) const {
    y[row * channels + column] = Activated(activation, bias == nullptr ? sum : sum + bias[column]);
  }

  int64_t channels;
  const float* bias;
  Activation activation;
  float* y;
};

template <Precision precision>
__global__ void __launch_bounds__(kProductThreads)
    ForwardKernel(int64_t rows, int64_t depth, Patches a, ForwardWeights b, StoreOutput store) {
  Product<precision>(rows, store.channels, 0, depth, a, b, store);
}

/// Rows are input pixels, depth is (kh,kw,o).
struct OutputGradients {
  struct Row {
    int64_t sample;
    int64_t row;  // padding added
    int64_t column;
  };

  using Depth = Tap;

  __device__ Row AtRow(int64_t pixel) const {
    const Conv2dOptions& o = shape.options;
    return {
        pixel / (o.in_height * o.in_width),
        pixel / o.in_width % o.in_height + o.padding,
        pixel % o.in_width + o.padding};
  }

  __device__ Depth AtDepth(int64_t k) const {
    return Tap::At(k, shape.options.kernel, shape.options.out_channels);
  }

  __device__ float Load(const Row& at, const Depth& tap) const {
    const int64_t stride = shape.options.stride;
    const int64_t row = at.row - tap.kh;
    const int64_t column = at.column - tap.kw;
    const bool is_inside = row >= 0 && row % stride == 0 && row / stride < shape.out_height &&
                           column >= 0 && column % stride == 0 && column / stride < shape.out_width;
    if (!is_inside) {
      return 0;
    }
    const int64_t pixel =
        (at.sample * shape.out_height + row / stride) * shape.out_width + column / stride;
    return dy[pixel * shape.options.out_channels + tap.channel];
  }

  ConvShape shape;
  const float* dy;
};

/// Depth is (kh,kw,o), columns are input channels.
struct BackwardWeights {
  using Column = int64_t;
  using Depth = Tap;

  __device__ Column AtColumn(int64_t column) const { return column; }

  __device__ Depth AtDepth(int64_t k) const {
    return Tap::At(k, shape.options.kernel, shape.options.out_channels);
  }

  __device__ float Load(const Depth& tap, Column column) const {
    return w[WeightAt(shape.options, tap.channel, column, tap)];
  }

  ConvShape shape;
  const float* w;
};

template <Precision precision>
__global__ void __launch_bounds__(kProductThreads) InputGradientKernel(
    int64_t rows, int64_t depth, OutputGradients a, BackwardWeights b, StoreOutput store) {
  Product<precision>(rows, store.channels, 0, depth, a, b, store);
}

/// Rows are output channels, depth is output pixels.
struct GradientRows {
  using Row = int64_t;
  using Depth = int64_t;

  __device__ Row AtRow(int64_t row) const { return row; }

  __device__ Depth AtDepth(int64_t pixel) const { return pixel; }

  __device__ float Load(Row row, Depth pixel) const { return dy[pixel * out_channels + row]; }

  int64_t out_channels;
  const float* dy;
};

/// Depth is output pixels, columns are (kh,kw,i).
struct PatchColumns {
  using Column = Tap;
  using Depth = Corner;

  __device__ Column AtColumn(int64_t column) const {
    return Tap::At(column, shape.options.kernel, shape.options.in_channels);
  }

  __device__ Depth AtDepth(int64_t pixel) const { return Corner::At(pixel, shape); }

  __device__ float Load(const Depth& corner, const Column& tap) const {
    return PatchValue(shape.options, x, corner, tap);
  }

  ConvShape shape;
  const float* x;
};

/// One part of the sum, in w's layout.
struct StorePart {
  __device__ void operator()(int64_t row, int64_t column, float sum) const {
    const Tap tap = Tap::At(column, options.kernel, options.in_channels);
    part[WeightAt(options, row, tap.channel, tap)] = sum;
  }

  Conv2dOptions options;
  float* part;
};

template <Precision precision>
__global__ void __launch_bounds__(kProductThreads) WeightGradientKernel(
    int64_t columns,
    int64_t depth,
    int64_t depth_of_part,
    GradientRows a,
    PatchColumns b,
    float* parts) {
  const int64_t begin = static_cast<int64_t>(blockIdx.z) * depth_of_part;
  const int64_t end = begin + depth_of_part < depth ? begin + depth_of_part : depth;
  const int64_t rows = a.out_channels;
  const StorePart store{b.shape.options, parts + static_cast<int64_t>(blockIdx.z) * rows * columns};
  Product<precision>(rows, columns, begin, end, a, b, store);
}

int64_t OutputPixels(const ConvShape& shape) {
  return shape.n * shape.out_height * shape.out_width;
}

int64_t Taps(const Conv2dOptions& o) {
  return o.kernel * o.kernel * o.in_channels;
}

/// How the sum over output pixels is cut: enough blocks for a large device, none with little to do.
int64_t PartCount(const ConvShape& shape) {
  constexpr int64_t kBlocksWanted = 512;
  constexpr int64_t kDepthMin = 256;
  const int64_t tiles = DivideUp(shape.options.out_channels, kProductTile) *
                        DivideUp(Taps(shape.options), kProductTile);
  const int64_t wanted = DivideUp(kBlocksWanted, tiles);
  const int64_t possible = DivideUp(OutputPixels(shape), kDepthMin);
  return possible < 1 ? 1 : wanted < possible ? wanted : possible;
}

}  // namespace

cudaError_t ConvForward(
    cudaStream_t stream,
    const ConvShape& shape,
    const float* x,
    const float* w,
    const float* bias,
    float* y) {
  const int64_t rows = OutputPixels(shape);
  const int64_t channels = shape.options.out_channels;
  return Launch(
      stream,
      ProductGrid(rows, channels, 1),
      dim3(kProductThreads),
      shape.options.precision == Precision::kBf16 ? &ForwardKernel<Precision::kBf16>
                                                  : &ForwardKernel<Precision::kF32>,
      rows,
      Taps(shape.options),
      Patches{shape, x},
      ForwardWeights{shape, w},
      StoreOutput{channels, bias, shape.options.activation, y});
}

cudaError_t ConvInputGradient(
    cudaStream_t stream, const ConvShape& shape, const float* dy, const float* w, float* dx) {
  const Conv2dOptions& o = shape.options;
  const int64_t rows = shape.n * o.in_height * o.in_width;
  return Launch(
      stream,
      ProductGrid(rows, o.in_channels, 1),
      dim3(kProductThreads),
      shape.options.precision == Precision::kBf16 ? &InputGradientKernel<Precision::kBf16>
                                                  : &InputGradientKernel<Precision::kF32>,
      rows,
      o.kernel * o.kernel * o.out_channels,
      OutputGradients{shape, dy},
      BackwardWeights{shape, w},
      StoreOutput{o.in_channels, nullptr, Activation::kNone, dx});
}

int64_t ConvWeightScratch(const ConvShape& shape) {
  return PartCount(shape) * shape.options.out_channels * Taps(shape.options);
}

cudaError_t ConvWeightGradient(
    cudaStream_t stream,
    const ConvShape& shape,
    const float* x,
    const float* dy,
    float* scratch,
    float* dw) {
  const int64_t rows = shape.options.out_channels;
  const int64_t columns = Taps(shape.options);
  const int64_t parts = PartCount(shape);
  const int64_t depth = OutputPixels(shape);
  const cudaError_t error = Launch(
      stream,
      ProductGrid(rows, columns, parts),
      dim3(kProductThreads),
      shape.options.precision == Precision::kBf16 ? &WeightGradientKernel<Precision::kBf16>
                                                  : &WeightGradientKernel<Precision::kF32>,
      columns,
      depth,
      DivideUp(depth, parts),
      GradientRows{rows, dy},
      PatchColumns{shape, x},
      scratch);
  return error == cudaSuccess ? SumParts(stream, scratch, parts, rows * columns, dw) : error;
}

}  // namespace ps::kernels
