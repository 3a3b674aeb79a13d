// Convolution whose channels are in groups, by plain sums: a thread for each value of the output
// and of the input's gradient, and one for each weight and some of the pixels. A group has few
// channels, and one where the convolution is depthwise, which leaves the tiles of conv2d.cu empty.
// Threads side by side have channels side by side, in memory too: weights are put into that order.

#include "kernels/cuda/bf16.cuh"
#include "kernels/cuda/conv2d.cuh"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/reduce.cuh"

namespace ps::kernels {
namespace {

/// What the kernels count with. CudaConv2d::Prepare keeps it below 2^30, as it does the pixels of a
/// batch and the values of a picture.
struct GroupedSizes {
  explicit GroupedSizes(const ConvShape& shape)
      : in_height(static_cast<int>(shape.options.in_height)),
        in_width(static_cast<int>(shape.options.in_width)),
        in_channels(static_cast<int>(shape.options.in_channels)),
        out_height(static_cast<int>(shape.out_height)),
        out_width(static_cast<int>(shape.out_width)),
        out_channels(static_cast<int>(shape.options.out_channels)),
        kernel(static_cast<int>(shape.options.kernel)),
        stride(static_cast<int>(shape.options.stride)),
        padding(static_cast<int>(shape.options.padding)),
        in_each(static_cast<int>(shape.options.in_channels / shape.options.groups)),
        out_each(static_cast<int>(shape.options.out_channels / shape.options.groups)) {}

  int in_height;
  int in_width;
  int in_channels;
  int out_height;
  int out_width;
  int out_channels;
  int kernel;
  int stride;
  int padding;
  int in_each;  // channels of a group
  int out_each;
};

/// A pixel of a batch of images of height x width.
struct BatchPixel {
  __device__ BatchPixel(int pixel, int height, int width)
      : column(pixel % width), row(pixel / width % height), sample(pixel / width / height) {}

  int column;
  int row;
  int sample;
};

/// Weights [(kh,kw,i), o] of w [o,i,kh,kw], as they are multiplied.
template <Precision precision>
struct ArrangeForOutput {
  __device__ void operator()(int64_t at) const {
    const int64_t channel = at % size.out_channels;
    const int64_t own = at / size.out_channels % size.in_each;
    const int64_t place = at / size.out_channels / size.in_each;
    arranged[at] =
        Rounded<precision>(w[(channel * size.in_each + own) * size.kernel * size.kernel + place]);
  }

  GroupedSizes size;
  const float* w;
  float* arranged;
};

/// The same for the input's gradient: [(kh,kw,o of the group), input channel].
template <Precision precision>
struct ArrangeForInput {
  __device__ void operator()(int64_t at) const {
    const int64_t channel = at % size.in_channels;
    const int64_t own = at / size.in_channels % size.out_each;
    const int64_t place = at / size.in_channels / size.out_each;
    const int64_t out_channel = channel / size.in_each * size.out_each + own;
    arranged[at] = Rounded<precision>(
        w[(out_channel * size.in_each + channel % size.in_each) * size.kernel * size.kernel +
          place]);
  }

  GroupedSizes size;
  const float* w;
  float* arranged;
};

/// y[at], at = ((s*height + oh)*width + ow)*channels + o.
template <Precision precision>
struct GroupedOutput {
  __device__ void operator()(int64_t at) const {
    const auto channel = static_cast<int>(at % size.out_channels);
    const BatchPixel pixel(
        static_cast<int>(at / size.out_channels), size.out_height, size.out_width);
    const int row = pixel.row * size.stride - size.padding;
    const int column = pixel.column * size.stride - size.padding;
    const int first = channel / size.out_each * size.in_each;
    const float* const image =
        x + int64_t{pixel.sample} * size.in_height * size.in_width * size.in_channels;
    float sum = 0;
    for (int kh = 0; kh < size.kernel; ++kh) {
      for (int kw = 0; kw < size.kernel; ++kw) {
        const float* const values = ValueAt(
            image, size.in_height, size.in_width, size.in_channels, row + kh, column + kw, first);
        if (values == nullptr) {
          continue;
        }
        const float* const weights =
            arranged + (kh * size.kernel + kw) * size.in_each * size.out_channels + channel;
        for (int i = 0; i < size.in_each; ++i) {
          sum += Rounded<precision>(values[i]) * weights[i * size.out_channels];
        }
      }
    }
    y[at] = Activated(activation, bias == nullptr ? sum : sum + bias[channel]);
  }

  GroupedSizes size;
  const float* x;
  const float* arranged;
  const float* bias;
  Activation activation;
  float* y;
};

/// dx[at], at = ((s*height + ih)*width + iw)*channels + i.
template <Precision precision>
struct GroupedInputGradient {
  __device__ void operator()(int64_t at) const {
    const auto channel = static_cast<int>(at % size.in_channels);
    const BatchPixel pixel(static_cast<int>(at / size.in_channels), size.in_height, size.in_width);
    const int row = pixel.row + size.padding;
    const int column = pixel.column + size.padding;
    const int first = channel / size.in_each * size.out_each;
    const float* const map =
        dy + int64_t{pixel.sample} * size.out_height * size.out_width * size.out_channels;
    float sum = 0;
    // The places of the kernel that meet the pixel: what is left of it is a multiple of the stride.
    for (int kh = row % size.stride; kh < size.kernel; kh += size.stride) {
      for (int kw = column % size.stride; kw < size.kernel; kw += size.stride) {
        const float* const values = ValueAt(
            map,
            size.out_height,
            size.out_width,
            size.out_channels,
            (row - kh) / size.stride,
            (column - kw) / size.stride,
            first);
        if (values == nullptr) {
          continue;
        }
        const float* const weights =
            arranged + (kh * size.kernel + kw) * size.out_each * size.in_channels + channel;
        for (int o = 0; o < size.out_each; ++o) {
          sum += Rounded<precision>(values[o]) * weights[o * size.in_channels];
        }
      }
    }
    dx[at] = sum;
  }

  GroupedSizes size;
  const float* dy;
  const float* arranged;
  float* dx;
};

/// What the pixels of y add to the gradient of `width` weights of one place and output channels
/// side by side.
template <Precision precision, int width>
struct ProductsOfWeights {
  __device__ void Add(int64_t row, int64_t /*column*/, float (&sums)[1][width]) const {
    const BatchPixel pixel(static_cast<int>(row), size.out_height, size.out_width);
    const float* const values = ValueAt(
        x + int64_t{pixel.sample} * size.in_height * size.in_width * size.in_channels,
        size.in_height,
        size.in_width,
        size.in_channels,
        pixel.row * size.stride + first_row,
        pixel.column * size.stride + first_column,
        0);
    if (values == nullptr) {
      return;
    }
    float slopes[width];
    LoadSideBySide(dy + row * size.out_channels + out_channel, slopes);
    PS_UNROLL
    for (int i = 0; i < width; ++i) {
      sums[0][i] += Rounded<precision>(values[in_channels[i]]) * Rounded<precision>(slopes[i]);
    }
  }

  GroupedSizes size;
  const float* x;
  const float* dy;
  int first_row;  // of the input, under the first pixel of the output
  int first_column;
  int out_channel;
  int in_channels[width];
};

/// Columns are weights, (kh,kw,i,o) in order; rows are pixels of the output.
template <Precision precision>
struct WeightProducts {
  static constexpr int kEach = 1;

  template <int width>
  __device__ ProductsOfWeights<precision, width> Of(int64_t column) const {
    const auto out_channel = static_cast<int>(column % size.out_channels);
    const auto tap = static_cast<int>(column / size.out_channels);
    const int place = tap / size.in_each;
    ProductsOfWeights<precision, width> of{
        size,
        x,
        dy,
        place / size.kernel - size.padding,
        place % size.kernel - size.padding,
        out_channel,
        {}};
    PS_UNROLL
    for (int i = 0; i < width; ++i) {
      of.in_channels[i] = (out_channel + i) / size.out_each * size.in_each + tap % size.in_each;
    }
    return of;
  }

  GroupedSizes size;
  const float* x;
  const float* dy;
};

/// Puts the sum of a column where dw [o,i,kh,kw] has it.
struct PutGroupedWeight {
  __device__ void operator()(int64_t column, const float (&sums)[1]) const {
    const int64_t channel = column % size.out_channels;
    const int64_t own = column / size.out_channels % size.in_each;
    const int64_t place = column / size.out_channels / size.in_each;
    dw[(channel * size.in_each + own) * size.kernel * size.kernel + place] = sums[0];
  }

  GroupedSizes size;
  float* dw;
};

template <Precision precision>
cudaError_t GroupedForward(
    cudaStream_t stream,
    const ConvShape& shape,
    const float* x,
    const float* w,
    const float* bias,
    float* scratch,
    float* y) {
  const GroupedSizes size(shape);
  const ArrangeForOutput<precision> arrange{size, w, scratch};
  const cudaError_t error = ForEach(stream, ConvWeightCount(shape), arrange);
  const GroupedOutput<precision> output{size, x, scratch, bias, shape.options.activation, y};
  return error == cudaSuccess
             ? ForEach(stream, OutputPixels(shape) * shape.options.out_channels, output)
             : error;
}

template <Precision precision>
cudaError_t GroupedBackward(
    cudaStream_t stream,
    const ConvShape& shape,
    const float* dy,
    const float* w,
    float* scratch,
    float* dx) {
  const GroupedSizes size(shape);
  const ArrangeForInput<precision> arrange{size, w, scratch};
  const cudaError_t error = ForEach(stream, ConvWeightCount(shape), arrange);
  const Conv2dOptions& o = shape.options;
  const GroupedInputGradient<precision> gradient{size, dy, scratch, dx};
  return error == cudaSuccess
             ? ForEach(stream, shape.n * o.in_height * o.in_width * o.in_channels, gradient)
             : error;
}

template <Precision precision>
cudaError_t GroupedWeights(
    cudaStream_t stream,
    const ConvShape& shape,
    const float* x,
    const float* dy,
    float* scratch,
    float* dw) {
  const GroupedSizes size(shape);
  return SumColumns(
      stream,
      WeightProducts<precision>{size, x, dy},
      OutputPixels(shape),
      ConvWeightCount(shape),
      AreFours(shape.options.out_channels, dy),
      scratch,
      PutGroupedWeight{size, dw});
}

bool IsInBf16(const ConvShape& shape) {
  return shape.options.precision == Precision::kBf16;
}

}  // namespace

cudaError_t GroupedConvForward(
    cudaStream_t stream,
    const ConvShape& shape,
    const float* x,
    const float* w,
    const float* bias,
    float* scratch,
    float* y) {
  const auto run =
      IsInBf16(shape) ? &GroupedForward<Precision::kBf16> : &GroupedForward<Precision::kF32>;
  return run(stream, shape, x, w, bias, scratch, y);
}

cudaError_t GroupedConvInputGradient(
    cudaStream_t stream,
    const ConvShape& shape,
    const float* dy,
    const float* w,
    float* scratch,
    float* dx) {
  const auto run =
      IsInBf16(shape) ? &GroupedBackward<Precision::kBf16> : &GroupedBackward<Precision::kF32>;
  return run(stream, shape, dy, w, scratch, dx);
}

int64_t GroupedConvGradientScratch(const ConvShape& shape) {
  return ColumnSumScratch(OutputPixels(shape), ConvWeightCount(shape));
}

cudaError_t GroupedConvWeightGradient(
    cudaStream_t stream,
    const ConvShape& shape,
    const float* x,
    const float* dy,
    float* scratch,
    float* dw) {
  const auto run =
      IsInBf16(shape) ? &GroupedWeights<Precision::kBf16> : &GroupedWeights<Precision::kF32>;
  return run(stream, shape, x, dy, scratch, dw);
}

}  // namespace ps::kernels
