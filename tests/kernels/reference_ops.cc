#include "tests/kernels/reference_ops.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace ps::kernels::test {
namespace {

size_t Index(int64_t i) {
  return static_cast<size_t>(i);
}

/// Offset of [n][h][w][c] in an NHWC tensor.
struct Nhwc {
  int64_t height;
  int64_t width;
  int64_t channels;

  size_t At(int64_t n, int64_t h, int64_t w, int64_t c) const {
    return Index(((n * height + h) * width + w) * channels + c);
  }

  bool Has(int64_t h, int64_t w) const { return h >= 0 && h < height && w >= 0 && w < width; }
};

Values BatchNorm(
    const Values& x,
    const Parameters& params,
    const Values& mean,
    const Values& variance,
    double epsilon) {
  const size_t channels = mean.size();
  Values y(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t c = i % channels;
    y[i] = params[0][c] * (x[i] - mean[c]) / std::sqrt(variance[c] + epsilon) + params[1][c];
  }
  return y;
}

}  // namespace

Reference ReferenceConv2d(const Conv2dOptions& o) {
  return [o](int64_t n, const Values& x, const Parameters& params) {
    const Nhwc in{o.in_height, o.in_width, o.in_channels};
    const Nhwc out{
        (o.in_height + 2 * o.padding - o.kernel) / o.stride + 1,
        (o.in_width + 2 * o.padding - o.kernel) / o.stride + 1,
        o.out_channels};
    Values y(Index(n * out.height * out.width * out.channels));
    const auto sum_at = [&](int64_t s, int64_t oh, int64_t ow, int64_t oc) {
      double sum = o.bias ? params[1][Index(oc)] : 0;
      const int64_t of_group = o.in_channels / o.groups;
      const int64_t first = oc / (o.out_channels / o.groups) * of_group;
      for (int64_t i = 0; i < of_group; ++i) {
        for (int64_t kh = 0; kh < o.kernel; ++kh) {
          for (int64_t kw = 0; kw < o.kernel; ++kw) {
            const int64_t ih = oh * o.stride + kh - o.padding;
            const int64_t iw = ow * o.stride + kw - o.padding;
            const int64_t w = ((oc * of_group + i) * o.kernel + kh) * o.kernel + kw;
            sum += in.Has(ih, iw) ? x[in.At(s, ih, iw, first + i)] * params[0][Index(w)] : 0;
          }
        }
      }
      return sum;
    };
    for (int64_t s = 0; s < n; ++s) {
      for (int64_t oh = 0; oh < out.height; ++oh) {
        for (int64_t ow = 0; ow < out.width; ++ow) {
          for (int64_t oc = 0; oc < out.channels; ++oc) {
            y[out.At(s, oh, ow, oc)] = sum_at(s, oh, ow, oc);
          }
        }
      }
    }
    return y;
  };
}

Reference ReferenceLinear(int64_t in, int64_t out, bool bias) {
  return [=](int64_t n, const Values& x, const Parameters& params) {
    Values y(Index(n * out));
    for (int64_t s = 0; s < n; ++s) {
      for (int64_t o = 0; o < out; ++o) {
        double sum = bias ? params[1][Index(o)] : 0;
        for (int64_t i = 0; i < in; ++i) {
          sum += x[Index(s * in + i)] * params[0][Index(o * in + i)];
        }
        y[Index(s * out + o)] = sum;
      }
    }
    return y;
  };
}

Reference ReferenceBatchNorm(int64_t channels, int64_t positions, double epsilon) {
  return [=](int64_t n, const Values& x, const Parameters& params) {
    Values mean(Index(channels));
    Values variance(Index(channels));
    const auto count = static_cast<double>(n * positions);
    for (size_t i = 0; i < x.size(); ++i) {
      mean[i % mean.size()] += x[i] / count;
    }
    for (size_t i = 0; i < x.size(); ++i) {
      const double distance = x[i] - mean[i % mean.size()];
      variance[i % mean.size()] += distance * distance / count;
    }
    return BatchNorm(x, params, mean, variance, epsilon);
  };
}

Reference ReferenceBatchNormEvaluation(int64_t, int64_t, double epsilon) {
  return [=](int64_t, const Values& x, const Parameters& params) {
    return BatchNorm(x, params, params[2], params[3], epsilon);
  };
}

Reference ReferencePool(const PoolOptions& o) {
  return [o](int64_t n, const Values& x, const Parameters&) {
    const Nhwc in{o.in_height, o.in_width, o.channels};
    const Nhwc out{
        (o.in_height + 2 * o.padding - o.kernel_height) / o.stride + 1,
        (o.in_width + 2 * o.padding - o.kernel_width) / o.stride + 1,
        o.channels};
    Values y(Index(n * out.height * out.width * out.channels));
    const auto window_at = [&](int64_t s, int64_t oh, int64_t ow, int64_t c) {
      double highest = -std::numeric_limits<double>::infinity();
      double sum = 0;
      for (int64_t kh = 0; kh < o.kernel_height; ++kh) {
        for (int64_t kw = 0; kw < o.kernel_width; ++kw) {
          const int64_t ih = oh * o.stride + kh - o.padding;
          const int64_t iw = ow * o.stride + kw - o.padding;
          if (in.Has(ih, iw)) {
            highest = std::max(highest, x[in.At(s, ih, iw, c)]);
            sum += x[in.At(s, ih, iw, c)];
          }
        }
      }
      const auto area = static_cast<double>(o.kernel_height * o.kernel_width);
      return o.kind == PoolKind::kMax ? highest : sum / area;
    };
    for (int64_t s = 0; s < n; ++s) {
      for (int64_t oh = 0; oh < out.height; ++oh) {
        for (int64_t ow = 0; ow < out.width; ++ow) {
          for (int64_t c = 0; c < o.channels; ++c) {
            y[out.At(s, oh, ow, c)] = window_at(s, oh, ow, c);
          }
        }
      }
    }
    return y;
  };
}

Reference ReferenceRelu() {
  return [](int64_t, const Values& x, const Parameters&) {
    Values y(x.size());
    std::transform(x.begin(), x.end(), y.begin(), [](double v) { return std::max(v, 0.0); });
    return y;
  };
}

Reference ReferenceGelu() {
  return [](int64_t, const Values& x, const Parameters&) {
    Values y(x.size());
    std::transform(x.begin(), x.end(), y.begin(), [](double v) {
      return 0.5 * v * (1 + std::erf(v / std::numbers::sqrt2));
    });
    return y;
  };
}

Reference ReferenceTanh() {
  return [](int64_t, const Values& x, const Parameters&) {
    Values y(x.size());
    std::transform(x.begin(), x.end(), y.begin(), [](double v) { return std::tanh(v); });
    return y;
  };
}

Reference ReferenceSigmoid() {
  return [](int64_t, const Values& x, const Parameters&) {
    Values y(x.size());
    std::transform(x.begin(), x.end(), y.begin(), [](double v) { return 1 / (1 + std::exp(-v)); });
    return y;
  };
}

Reference ReferenceFlatten(int64_t channels, int64_t positions) {
  return [=](int64_t n, const Values& x, const Parameters&) {
    Values y(x.size());
    for (int64_t s = 0; s < n; ++s) {
      for (int64_t p = 0; p < positions; ++p) {
        for (int64_t c = 0; c < channels; ++c) {
          y[Index((s * channels + c) * positions + p)] =
              x[Index((s * positions + p) * channels + c)];
        }
      }
    }
    return y;
  };
}

Reference ReferenceChannelsLast(int64_t channels, int64_t positions) {
  return ReferenceFlatten(positions, channels);
}

Reference ReferenceEmbedding(const EmbeddingOptions& o) {
  return [=](int64_t n, const Values& x, const Parameters& params) {
    Values y;
    for (int64_t row = 0; row < n * o.length; ++row) {
      for (int64_t i = 0; i < o.width; ++i) {
        const auto token = static_cast<int64_t>(x[Index(row)]);
        const double place = o.positions ? params[1][Index(row % o.length * o.width + i)] : 0;
        y.push_back(params[0][Index(token * o.width + i)] + place);
      }
    }
    return y;
  };
}

Reference ReferenceLayerNorm(int64_t features, double epsilon) {
  return [=](int64_t n, const Values& x, const Parameters& params) {
    Values y;
    const auto count = static_cast<double>(features);
    for (int64_t row = 0; row < n; ++row) {
      const double* values = x.data() + row * features;
      double mean = 0;
      double variance = 0;
      for (int64_t i = 0; i < features; ++i) {
        mean += values[i] / count;
      }
      for (int64_t i = 0; i < features; ++i) {
        variance += (values[i] - mean) * (values[i] - mean) / count;
      }
      for (int64_t i = 0; i < features; ++i) {
        const double normal = (values[i] - mean) / std::sqrt(variance + epsilon);
        y.push_back(params[0][Index(i)] * normal + params[1][Index(i)]);
      }
    }
    return y;
  };
}

Reference ReferenceGroupNorm(int64_t channels, int64_t positions, int64_t groups, double epsilon) {
  return [=](int64_t n, const Values& x, const Parameters& params) {
    Values y(x.size());
    const int64_t width = channels / groups;
    const auto count = static_cast<double>(width * positions);
    for (int64_t sample = 0; sample < n; ++sample) {
      for (int64_t first = 0; first < channels; first += width) {
        std::vector<size_t> places;
        for (int64_t p = 0; p < positions; ++p) {
          for (int64_t c = first; c < first + width; ++c) {
            places.push_back(Index((sample * positions + p) * channels + c));
          }
        }
        double mean = 0;
        double variance = 0;
        for (const size_t at : places) {
          mean += x[at] / count;
        }
        for (const size_t at : places) {
          variance += (x[at] - mean) * (x[at] - mean) / count;
        }
        for (const size_t at : places) {
          const size_t c = at % Index(channels);
          y[at] = params[0][c] * (x[at] - mean) / std::sqrt(variance + epsilon) + params[1][c];
        }
      }
    }
    return y;
  };
}

Reference ReferenceAttention(const AttentionOptions& o) {
  return [=](int64_t n, const Values& x, const Parameters&) {
    const int64_t size = o.width / o.heads;
    Values y(Index(n * o.length * o.width), 0);
    // What = 0, 1, 2: query, key, value of a token.
    const auto at = [&](int64_t sample, int64_t token, int64_t what, int64_t i) {
      return x[Index(((sample * o.length + token) * 3 + what) * o.width + i)];
    };
    for (int64_t sample = 0; sample < n; ++sample) {
      for (int64_t head = 0; head < o.width; head += size) {
        for (int64_t t = 0; t < o.length; ++t) {
          Values weights;
          double sum = 0;
          for (int64_t u = 0; u < (o.causal ? t + 1 : o.length); ++u) {
            double score = 0;
            for (int64_t i = head; i < head + size; ++i) {
              score += at(sample, t, 0, i) * at(sample, u, 1, i);
            }
            weights.push_back(std::exp(score / std::sqrt(static_cast<double>(size))));
            sum += weights.back();
          }
          for (size_t u = 0; u < weights.size(); ++u) {
            for (int64_t i = head; i < head + size; ++i) {
              y[Index((sample * o.length + t) * o.width + i)] +=
                  weights[u] / sum * at(sample, static_cast<int64_t>(u), 2, i);
            }
          }
        }
      }
    }
    return y;
  };
}

}  // namespace ps::kernels::test
