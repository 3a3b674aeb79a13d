#include "tests/kernels/op_cases.h"

#include <algorithm>
#include <utility>
#include <variant>

namespace ps::kernels::test {
namespace {

constexpr double kExact = 1e-13;  // copies and comparisons
constexpr double kSums = 1e-11;   // products added up in another order

std::string Sizes(std::initializer_list<int64_t> sizes) {
  std::string text;
  for (const int64_t size : sizes) {
    text += "_" + std::to_string(size);
  }
  return text;
}

OpCase Conv2dCase(int64_t n, const Conv2dOptions& o) {
  const int64_t out_h = WindowCount(o.in_height, o.kernel, o.stride, o.padding);
  const int64_t out_w = WindowCount(o.in_width, o.kernel, o.stride, o.padding);
  OpCase c;
  c.kind = "conv2d";
  c.sizes = "_n" + std::to_string(n) + "_in" + Sizes({o.in_channels, o.in_height, o.in_width}) +
            "_out" + Sizes({o.out_channels}) + "_ksp" + Sizes({o.kernel, o.stride, o.padding}) +
            (o.bias ? "" : "_nobias") + (o.groups > 1 ? "_groups" + Sizes({o.groups}) : "");
  c.n = n;
  c.in_elements = o.in_channels * o.in_height * o.in_width;
  c.out_elements = o.out_channels * out_h * out_w;
  c.parameter_sizes = {o.out_channels * o.in_channels / o.groups * o.kernel * o.kernel};
  if (o.bias) {
    c.parameter_sizes.push_back(o.out_channels);
  }
  c.spec = o;
  c.reference = ReferenceConv2d(o);
  c.nmse_max = kSums;
  return c;
}

OpCase LinearCase(int64_t n, int64_t in, int64_t out, bool bias) {
  OpCase c;
  c.kind = "linear";
  c.sizes = Sizes({n, in, out}) + (bias ? "" : "_nobias");
  c.n = n;
  c.in_elements = in;
  c.out_elements = out;
  c.parameter_sizes = {in * out};
  if (bias) {
    c.parameter_sizes.push_back(out);
  }
  c.spec = LinearOptions{.in_features = in, .out_features = out, .bias = bias};
  c.reference = ReferenceLinear(in, out, bias);
  c.nmse_max = kSums;
  return c;
}

OpCase BatchNormCase(int64_t n, int64_t channels, int64_t height, int64_t width) {
  constexpr double kEpsilon = 1e-3;
  OpCase c;
  c.kind = "batch_norm";
  c.sizes = Sizes({n, channels, height, width});
  c.n = n;
  c.in_elements = channels * height * width;
  c.out_elements = c.in_elements;
  c.parameter_sizes = {channels, channels, channels, channels};
  c.spec = BatchNormOptions{
      .channels = channels,
      .height = height,
      .width = width,
      .epsilon = static_cast<float>(kEpsilon)};
  c.reference = ReferenceBatchNorm(channels, height * width, kEpsilon);
  // Differences of nearly equal numbers: a few values a channel lose some digits.
  c.nmse_max = 1e-9;
  return c;
}

OpCase PoolCase(int64_t n, const PoolOptions& o) {
  const int64_t out_h = WindowCount(o.in_height, o.kernel_height, o.stride, o.padding);
  const int64_t out_w = WindowCount(o.in_width, o.kernel_width, o.stride, o.padding);
  const bool is_max = o.kind == PoolKind::kMax;
  OpCase c;
  c.kind = is_max ? "max_pool" : "avg_pool";
  c.sizes = Sizes({n, o.channels, o.in_height, o.in_width}) + "_ksp" +
            Sizes({o.kernel_height, o.kernel_width, o.stride, o.padding});
  c.n = n;
  c.in_elements = o.channels * o.in_height * o.in_width;
  c.out_elements = o.channels * out_h * out_w;
  c.spec = o;
  c.reference = ReferencePool(o);
  c.nmse_max = is_max ? kExact : kSums;
  return c;
}

OpCase ElementwiseCase(
    const std::string& kind, int64_t n, int64_t elements, const OpSpec& spec, Reference reference) {
  OpCase c;
  c.kind = kind;
  c.sizes = Sizes({n, elements});
  c.n = n;
  c.in_elements = elements;
  c.out_elements = elements;
  c.spec = spec;
  c.reference = std::move(reference);
  return c;
}

OpCase EmbeddingCase(int64_t n, const EmbeddingOptions& o) {
  OpCase c;
  c.kind = "embedding";
  c.sizes = Sizes({n, o.vocabulary, o.length, o.width}) + (o.positions ? "" : "_nopositions");
  c.n = n;
  c.in_elements = o.length;
  c.vocabulary = o.vocabulary;
  c.out_elements = o.length * o.width;
  c.parameter_sizes = {o.vocabulary * o.width};
  if (o.positions) {
    c.parameter_sizes.push_back(o.length * o.width);
  }
  c.spec = o;
  c.reference = ReferenceEmbedding(o);
  c.nmse_max = kExact;
  return c;
}

OpCase LayerNormCase(int64_t n, int64_t features) {
  constexpr float kEpsilon = 1e-3F;
  OpCase c;
  c.kind = "layer_norm";
  c.sizes = Sizes({n, features});
  c.n = n;
  c.in_elements = features;
  c.out_elements = features;
  c.parameter_sizes = {features, features};
  c.spec = LayerNormOptions{.features = features, .epsilon = kEpsilon};
  c.reference = ReferenceLayerNorm(features, static_cast<double>(kEpsilon));
  c.nmse_max = 1e-9;  // as of batch_norm
  return c;
}

OpCase GroupNormCase(int64_t n, const GroupNormOptions& o) {
  const int64_t positions = o.height * o.width;
  OpCase c;
  c.kind = "group_norm";
  c.sizes = Sizes({n, o.channels, o.height, o.width, o.groups});
  c.n = n;
  c.in_elements = o.channels * positions;
  c.out_elements = c.in_elements;
  c.parameter_sizes = {o.channels, o.channels};
  c.spec = o;
  c.reference = ReferenceGroupNorm(o.channels, positions, o.groups, static_cast<double>(o.epsilon));
  c.nmse_max = 1e-9;  // as of batch_norm
  return c;
}

OpCase AttentionCase(int64_t n, const AttentionOptions& o) {
  OpCase c;
  c.kind = "attention";
  c.sizes = Sizes({n, o.length, o.width, o.heads}) + (o.causal ? "_causal" : "");
  c.n = n;
  c.in_elements = 3 * o.length * o.width;
  c.out_elements = o.length * o.width;
  c.spec = o;
  c.reference = ReferenceAttention(o);
  c.nmse_max = kSums;
  return c;
}

void AppendSequenceOps(std::vector<OpCase>* cases) {
  // n, then vocabulary, length, width, positions.
  cases->push_back(EmbeddingCase(0, {31, 7, 33, true}));
  cases->push_back(EmbeddingCase(1, {2, 1, 1, true}));
  cases->push_back(EmbeddingCase(3, {31, 7, 33, true}));
  cases->push_back(EmbeddingCase(2, {256, 32, 32, false}));
  // Several rows of the table, more columns than threads, more tokens than threads to a block.
  cases->push_back(EmbeddingCase(2, {1031, 139, 3, true}));
  cases->push_back(EmbeddingCase(1, {3, 2, 261, false}));
  cases->push_back(EmbeddingCase(3, {29, 5, 36, true}));
  // More rows than a block has side by side, by fours too; rows of several fours of a thread, and
  // such as no block of one row holds.
  cases->push_back(LayerNormCase(19, 36));
  cases->push_back(LayerNormCase(3, 1028));
  cases->push_back(LayerNormCase(2, 1031));
  cases->push_back(LayerNormCase(2, 4100));
  for (const int64_t features : {1, 3, 4, 5, 31, 32, 33, 127}) {
    cases->push_back(LayerNormCase(0, features));
    cases->push_back(LayerNormCase(1, features));
    cases->push_back(LayerNormCase(5, features));
  }
  for (const bool causal : {false, true}) {
    // n, then length, width, heads. The last has two tiles, the second of them short.
    cases->push_back(AttentionCase(0, {31, 6, 3, causal}));
    cases->push_back(AttentionCase(1, {1, 1, 1, causal}));
    cases->push_back(AttentionCase(2, {31, 6, 3, causal}));
    cases->push_back(AttentionCase(1, {32, 32, 1, causal}));
    cases->push_back(AttentionCase(3, {33, 10, 2, causal}));
    cases->push_back(AttentionCase(1, {67, 14, 2, causal}));
  }
  // Heads that are wide.
  cases->push_back(AttentionCase(1, {33, 66, 2, false}));
  cases->push_back(AttentionCase(2, {9, 67, 1, true}));
  // Heads of the sizes that models have, in bf16 alone: several tiles of keys, the last one short,
  // and for the first two tiles of queries.
  for (const bool causal : {false, true}) {
    for (const AttentionOptions& o :
         {AttentionOptions{67, 32, 1, causal},
          AttentionOptions{37, 64, 1, causal},
          AttentionOptions{33, 128, 1, causal}}) {
      cases->push_back(InPrecision(AttentionCase(1, o), Precision::kBf16));
    }
  }
}

void AppendGroupedConvolutions(std::vector<OpCase>* cases) {
  const auto add = [&](int64_t n, int64_t groups, Conv2dOptions options) {
    options.groups = groups;
    cases->push_back(Conv2dCase(n, options));
  };
  add(0, 2, {4, 5, 5, 6, 3, 1, 1, true});
  add(3, 2, {6, 7, 5, 4, 3, 2, 1, true});
  add(1, 4, {32, 6, 5, 64, 3, 1, 1, false});
  add(2, 5, {35, 4, 6, 15, 1, 1, 0, true});
  add(0, 4, {4, 6, 5, 4, 5, 1, 2, true});
  // Depthwise: few channels, many with a wide kernel, and several outputs of each channel.
  add(1, 3, {3, 7, 5, 3, 3, 1, 1, true});
  add(2, 33, {33, 8, 7, 33, 7, 1, 3, true});
  add(3, 16, {16, 9, 6, 48, 3, 2, 0, false});
  // More output pixels than one part of the sum over them has.
  add(5, 8, {8, 9, 8, 8, 3, 1, 1, true});
}

void AppendConvolutions(std::vector<OpCase>* cases) {
  // n, then channels, height, width, out channels, kernel, stride, padding, bias.
  cases->push_back(Conv2dCase(0, {3, 5, 5, 4, 3, 1, 1, true}));
  cases->push_back(Conv2dCase(1, {1, 1, 1, 1, 1, 1, 0, true}));
  cases->push_back(Conv2dCase(1, {3, 7, 5, 5, 3, 1, 1, true}));
  cases->push_back(Conv2dCase(2, {1, 9, 9, 16, 3, 1, 0, true}));
  cases->push_back(Conv2dCase(3, {17, 5, 3, 7, 3, 1, 1, false}));
  cases->push_back(Conv2dCase(2, {2, 11, 7, 3, 5, 2, 2, true}));
  cases->push_back(Conv2dCase(5, {16, 8, 8, 32, 3, 2, 1, false}));
  cases->push_back(Conv2dCase(3, {16, 6, 6, 33, 1, 2, 0, false}));
  // Odd strides: as far as the window reaches, farther, and with a rest at the edge.
  cases->push_back(Conv2dCase(2, {3, 10, 8, 5, 3, 3, 1, true}));
  cases->push_back(Conv2dCase(2, {4, 9, 7, 12, 3, 3, 1, true}));
  cases->push_back(Conv2dCase(3, {8, 9, 6, 8, 2, 4, 0, false}));
  cases->push_back(Conv2dCase(3, {5, 8, 7, 3, 1, 3, 0, false}));
  cases->push_back(Conv2dCase(2, {2, 13, 11, 31, 3, 5, 2, true}));
  // More than one tile of output channels, of input channels, and of output pixels to add up.
  cases->push_back(Conv2dCase(3, {2, 13, 11, 65, 1, 1, 0, true}));
  cases->push_back(Conv2dCase(1, {66, 3, 3, 3, 1, 1, 0, true}));
  cases->push_back(Conv2dCase(0, {3, 5, 5, 4, 1, 1, 0, true}));
  cases->push_back(Conv2dCase(3, {16, 4, 3, 24, 1, 1, 0, false}));
  cases->push_back(Conv2dCase(2, {12, 6, 5, 40, 3, 1, 1, true}));
  cases->push_back(Conv2dCase(1, {8, 5, 5, 68, 3, 1, 1, false}));
  AppendGroupedConvolutions(cases);
}

void AppendPools(std::vector<OpCase>* cases) {
  for (const PoolKind kind : {PoolKind::kMax, PoolKind::kAverage}) {
    // n, then channels, height, width, kernel height and width, stride, padding.
    cases->push_back(PoolCase(0, {kind, 3, 7, 5, 2, 2, 2, 0}));
    cases->push_back(PoolCase(1, {kind, 1, 1, 1, 1, 1, 1, 0}));
    cases->push_back(PoolCase(1, {kind, 3, 7, 5, 2, 2, 2, 0}));
    cases->push_back(PoolCase(3, {kind, 17, 5, 5, 3, 3, 1, 1}));
    cases->push_back(PoolCase(2, {kind, 32, 6, 6, 3, 3, 2, 1}));
    cases->push_back(PoolCase(2, {kind, 31, 8, 7, 3, 3, 3, 1}));
    cases->push_back(PoolCase(1, {kind, 5, 13, 11, 2, 3, 5, 1}));
    // Channels by fours: windows that do not touch, that overlap, and that leave some out.
    cases->push_back(PoolCase(2, {kind, 8, 6, 5, 2, 2, 2, 0}));
    cases->push_back(PoolCase(2, {kind, 4, 5, 7, 3, 3, 1, 1}));
    cases->push_back(PoolCase(1, {kind, 12, 9, 8, 2, 2, 3, 0}));
    // As many places of a window as a byte tells apart, and more.
    cases->push_back(PoolCase(1, {kind, 4, 16, 18, 15, 17, 1, 0}));
    cases->push_back(PoolCase(1, {kind, 4, 17, 17, 16, 16, 1, 0}));
    cases->push_back(PoolCase(1, {kind, 3, 19, 18, 16, 17, 2, 1}));
  }
  cases->push_back(PoolCase(3, {PoolKind::kAverage, 19, 7, 5, 7, 5, 1, 0}));  // global
}

/// Puts the same row in bf16 behind each that multiplies.
std::vector<OpCase> WithBf16(const std::vector<OpCase>& rows) {
  std::vector<OpCase> cases;
  for (const OpCase& row : rows) {
    cases.push_back(row);
    OpCase rounded = InPrecision(row, Precision::kBf16);
    if (row.precision == Precision::kF32 && rounded.precision == Precision::kBf16) {
      cases.push_back(std::move(rounded));
    }
  }
  return cases;
}

}  // namespace

OpCase InPrecision(OpCase op_case, Precision precision) {
  const auto set = [&](auto& options) {
    if constexpr (requires { options.precision; }) {
      options.precision = op_case.precision = precision;
    }
  };
  std::visit(set, op_case.spec);
  if (op_case.precision == Precision::kBf16) {
    // Each factor is off by up to 2^-9 of itself, which makes some 3e-6 of their products' squares.
    // Sums that nearly cancel have less to compare that with, and attention's mean values do.
    op_case.nmse_max = op_case.gradient_nmse_max = op_case.kind == "attention" ? 5e-5 : 3e-5;
  }
  return op_case;
}

std::vector<OpCase> AllOpCases() {
  std::vector<OpCase> cases;
  AppendConvolutions(&cases);
  AppendPools(&cases);
  AppendSequenceOps(&cases);
  cases.push_back(LinearCase(0, 7, 13, true));
  cases.push_back(LinearCase(1, 1, 1, true));
  cases.push_back(LinearCase(1, 7, 13, true));
  cases.push_back(LinearCase(5, 31, 10, true));
  cases.push_back(LinearCase(3, 33, 64, false));
  cases.push_back(LinearCase(31, 32, 33, true));
  cases.push_back(LinearCase(2, 66, 67, true));
  cases.push_back(LinearCase(70, 3, 2, true));
  cases.push_back(BatchNormCase(0, 7, 3, 5));
  cases.push_back(BatchNormCase(3, 1, 1, 1));
  cases.push_back(BatchNormCase(3, 7, 3, 5));
  cases.push_back(BatchNormCase(1, 16, 5, 3));
  cases.push_back(BatchNormCase(2, 31, 2, 1));
  cases.push_back(BatchNormCase(2, 32, 1, 3));
  cases.push_back(BatchNormCase(11, 33, 1, 1));
  // Many rows of few channels.
  cases.push_back(BatchNormCase(5, 1, 32, 32));
  cases.push_back(BatchNormCase(33, 4, 12, 11));
  // n, then channels, height, width, groups, epsilon: one group, as many as channels, some.
  cases.push_back(GroupNormCase(0, {6, 3, 5, 2, 1e-3F}));
  cases.push_back(GroupNormCase(1, {1, 1, 1, 1, 1e-3F}));
  cases.push_back(GroupNormCase(2, {31, 3, 2, 1, 1e-3F}));
  cases.push_back(GroupNormCase(3, {7, 5, 3, 7, 1e-3F}));
  cases.push_back(GroupNormCase(2, {66, 3, 3, 11, 1e-3F}));
  cases.push_back(GroupNormCase(5, {32, 1, 1, 4, 1e-3F}));
  for (const int64_t elements : {1, 31, 32, 33, 127}) {
    for (const int64_t n : {0, 1, 3}) {
      cases.push_back(ElementwiseCase("relu", n, elements, ReluOptions{elements}, ReferenceRelu()));
      OpCase gelu = ElementwiseCase("gelu", n, elements, GeluOptions{elements}, ReferenceGelu());
      gelu.nmse_max = 1e-9;  // oneDNN's erf is a polynomial
      cases.push_back(std::move(gelu));
      cases.push_back(ElementwiseCase("tanh", n, elements, TanhOptions{elements}, ReferenceTanh()));
      cases.push_back(
          ElementwiseCase("sigmoid", n, elements, SigmoidOptions{elements}, ReferenceSigmoid()));
    }
  }
  for (const int64_t channels : {3, 1, 2, 16}) {
    const int64_t n = channels == 3 ? 0 : 2;
    cases.push_back(ElementwiseCase(
        "flatten",
        n,
        channels * 35,
        FlattenOptions{channels, 7, 5},
        ReferenceFlatten(channels, 35)));
    cases.push_back(ElementwiseCase(
        "channels_last",
        n,
        channels * 35,
        ChannelsLastOptions{channels, 7, 5},
        ReferenceChannelsLast(channels, 35)));
  }
  return WithBf16(cases);
}

std::vector<OpCase> OpCasesOf(const std::string& kind) {
  std::vector<OpCase> cases = AllOpCases();
  std::erase_if(cases, [&](const OpCase& c) { return c.kind != kind; });
  return cases;
}

std::vector<std::string> AllOpKinds() {
  std::vector<std::string> kinds;
  for (const OpCase& c : AllOpCases()) {
    if (std::find(kinds.begin(), kinds.end(), c.kind) == kinds.end()) {
      kinds.push_back(c.kind);
    }
  }
  return kinds;
}

}  // namespace ps::kernels::test
