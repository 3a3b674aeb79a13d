#include <algorithm>
#include <cmath>

#include "kernels/cpu/dnnl_primitive.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/softmax_rows.h"
#include "kernels/cpu/vector.h"
#include "ps/base/buffer.h"
#include "ps/base/check.h"

namespace ps::kernels {
namespace {

/// So many queries at a time: their scores stay in the cache, and a causal attention leaves out the
/// keys behind them.
constexpr int64_t kTile = 64;

/// A matrix as oneDNN's sgemm takes it: rows of `stride` floats, transposed or not.
struct Matrix {
  const float* data;
  int64_t stride;
  bool is_transposed = false;
};

/// c = alpha * a b + beta * c, c [m, n].
void Multiply(
    int64_t m,
    int64_t n,
    int64_t k,
    float alpha,
    const Matrix& a,
    const Matrix& b,
    float beta,
    float* c,
    int64_t c_stride) {
  const dnnl::status status = dnnl::sgemm(
      a.is_transposed ? 'T' : 'N',
      b.is_transposed ? 'T' : 'N',
      m,
      n,
      k,
      alpha,
      a.data,
      a.stride,
      b.data,
      b.stride,
      beta,
      c,
      c_stride);
  PS_CHECK(status == dnnl::status::success) << "sgemm of valid sizes";
}

/// Scores are never kept: of each row, the logarithm of its sum is, and backward computes them
/// again. So memory grows with the tokens and not with their square.
class Attention final : public Op {
 public:
  Attention(const AttentionOptions& options, Workspace* workspace)
      : o_(options),
        head_width_(options.width / options.heads),
        scale_(1.0F / std::sqrt(static_cast<float>(head_width_))),
        workspace_(workspace) {
    PS_CHECK(options.width % options.heads == 0);
  }

  Status Prepare(int64_t n, bool /*training*/) override {
    // Scores of a tile, and their gradients.
    workspace_->Reserve(static_cast<size_t>(2 * kTile * o_.length) * sizeof(float));
    if (IsRounded()) {
      workspace_->ReserveCopies(static_cast<size_t>(4 * o_.length * o_.width) * sizeof(float));
    }
    const auto size = static_cast<size_t>(n * o_.heads * o_.length) * sizeof(float);
    if (size > log_sums_.size()) {
      log_sums_ = Buffer(size);
    }
    return Status::Ok();
  }

  void Forward(const ForwardArgs& args) override {
    for (int64_t i = 0; i < args.n * o_.heads; ++i) {
      const Head head = HeadAt(args.x, i);
      float* y = args.y + OutputAt(i);
      for (int64_t first = 0; first < o_.length; first += kTile) {
        const Tile tile = TileAt(first);
        float* scores = Scores(head, tile);
        for (int64_t row = 0; row < tile.rows; ++row) {
          float* line = scores + row * o_.length;
          const int64_t visible = VisibleFrom(first + row);
          *LogSum(i, first + row) = SoftmaxRow(line, visible);
          std::fill(line + visible, line + tile.keys, 0.0F);
          Round(line, tile.keys);
        }
        Multiply(
            tile.rows,
            head_width_,
            tile.keys,
            1,
            {scores, o_.length},
            {head.value, 3 * o_.width},
            0,
            y + first * o_.width,
            o_.width);
      }
    }
  }

  void Backward(const BackwardArgs& args) override {
    PS_CHECK(args.dx != nullptr) << "attention has only its input's gradient to compute";
    for (int64_t i = 0; i < args.n * o_.heads; ++i) {
      const Head head = HeadAt(args.x, i);
      const float* const dy = OutputGradient(args.dy, i);
      float* const dx = args.dx + InputAt(i);
      // The last tile sees every key, so it writes what the others add to.
      bool is_first = true;
      for (int64_t tile = (o_.length - 1) / kTile; tile >= 0; --tile) {
        const float beta = is_first ? 0.0F : 1.0F;
        BackwardTile(args.y + OutputAt(i), dy, i, head, TileAt(tile * kTile), beta, dx);
        is_first = false;
      }
    }
  }

  OpTraits traits() const override { return {.backward_reads_output = true}; }

 private:
  /// One head of one sample; rows are 3 * width apart.
  struct Head {
    const float* query;
    const float* key;
    const float* value;
  };

  /// Queries [first, first + rows) and the keys [0, keys) that any of them sees.
  struct Tile {
    int64_t first;
    int64_t rows;
    int64_t keys;
  };

  bool IsRounded() const { return o_.precision == Precision::kBf16; }

  /// In place, where factors of products are.
  void Round(float* values, int64_t n) const {
    if (IsRounded()) {
      RoundToBf16(values, values, n);
    }
  }

  /// What head i multiplies of `values`, `size` of them a sample. If they are rounded they lie in
  /// the workspace at `offset`: the heads of a sample come one behind the other, and the first of
  /// them has it copied.
  const float* Factors(const float* values, int64_t size, int64_t i, int64_t offset) {
    const float* sample = values + i / o_.heads * size;
    if (IsRounded()) {
      float* const copy = reinterpret_cast<float*>(workspace_->copies()) + offset;
      if (i % o_.heads == 0) {
        RoundToBf16(sample, copy, size);
      }
      sample = copy;
    }
    return sample + i % o_.heads * head_width_;
  }

  Head HeadAt(const float* x, int64_t i) {
    const float* query = Factors(x, 3 * o_.length * o_.width, i, 0);
    return {query, query + o_.width, query + 2 * o_.width};
  }

  const float* OutputGradient(const float* dy, int64_t i) {
    return Factors(dy, o_.length * o_.width, i, 3 * o_.length * o_.width);
  }

  int64_t InputAt(int64_t i) const {
    return i / o_.heads * o_.length * 3 * o_.width + i % o_.heads * head_width_;
  }

  int64_t OutputAt(int64_t i) const {
    return i / o_.heads * o_.length * o_.width + i % o_.heads * head_width_;
  }

  Tile TileAt(int64_t first) const {
    const int64_t rows = std::min(kTile, o_.length - first);
    return {first, rows, o_.causal ? first + rows : o_.length};
  }

  int64_t VisibleFrom(int64_t query) const { return o_.causal ? query + 1 : o_.length; }

  float* LogSum(int64_t i, int64_t row) { return log_sums_.floats().data() + i * o_.length + row; }

  /// [rows, keys] in the workspace, rows `length` apart.
  float* Scores(const Head& head, const Tile& tile) {
    auto* scores = reinterpret_cast<float*>(workspace_->data());
    Multiply(
        tile.rows,
        tile.keys,
        head_width_,
        scale_,
        {head.query + tile.first * 3 * o_.width, 3 * o_.width},
        {head.key, 3 * o_.width, true},
        0,
        scores,
        o_.length);
    return scores;
  }

  /// `y`, `dy` and `dx`, that of the queries, are the head's. `beta` is 0 when the gradients of
  /// keys and values are to be written, 1 when added to.
  void BackwardTile(
      const float* y,
      const float* dy,
      int64_t i,
      const Head& head,
      const Tile& tile,
      float beta,
      float* dx) {
    const int64_t stride = 3 * o_.width;
    y += tile.first * o_.width;
    dy += tile.first * o_.width;
    float* p = Scores(head, tile);
    float* ds = p + kTile * o_.length;
    Multiply(
        tile.rows,
        tile.keys,
        head_width_,
        1,
        {dy, o_.width},
        {head.value, stride, true},
        0,
        ds,
        o_.length);
    for (int64_t row = 0; row < tile.rows; ++row) {
      float* line = p + row * o_.length;
      float* gradient = ds + row * o_.length;
      const int64_t visible = VisibleFrom(tile.first + row);
      ExpRow(*LogSum(i, tile.first + row), line, visible);
      std::fill(line + visible, line + tile.keys, 0.0F);
      ScoreGradient(y + row * o_.width, dy + row * o_.width, line, gradient, tile.keys);
      Round(line, tile.keys);
      Round(gradient, tile.keys);
    }
    const Matrix p_by_keys{p, o_.length, true};
    const Matrix ds_by_keys{ds, o_.length, true};
    const Matrix queries{head.query + tile.first * stride, stride};
    float* const dq = dx + tile.first * stride;
    float* const dk = dx + o_.width;
    float* const dv = dx + 2 * o_.width;
    MultiplyByHead(tile.keys, tile.rows, 1, p_by_keys, {dy, o_.width}, beta, dv);
    MultiplyByHead(tile.rows, tile.keys, scale_, {ds, o_.length}, {head.key, stride}, 0, dq);
    MultiplyByHead(tile.keys, tile.rows, scale_, ds_by_keys, queries, beta, dk);
  }

  /// c = alpha * a b + beta * c, c in dx.
  void MultiplyByHead(
      int64_t m, int64_t k, float alpha, const Matrix& a, const Matrix& b, float beta, float* c) {
    Multiply(m, head_width_, k, alpha, a, b, beta, c, 3 * o_.width);
  }

  /// ds = p * (ds - sum of y * dy), of one row.
  void ScoreGradient(
      const float* y, const float* dy, const float* p, float* ds, int64_t keys) const {
    float mean = 0;
    for (int64_t j = 0; j < head_width_; ++j) {
      mean += y[j] * dy[j];
    }
    for (int64_t j = 0; j < keys; ++j) {
      ds[j] = p[j] * (ds[j] - mean);
    }
  }

  const AttentionOptions o_;
  const int64_t head_width_;
  const float scale_;
  Workspace* const workspace_;
  Buffer log_sums_;  // [n, heads, length], of the last batch
};

}  // namespace

std::unique_ptr<Op> MakeAttention(const AttentionOptions& options, Workspace* workspace) {
  return std::make_unique<Attention>(options, workspace);
}

}  // namespace ps::kernels
