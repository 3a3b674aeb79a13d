#include <algorithm>
#include <cmath>

#include "kernels/cpu/dnnl_primitive.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/softmax_rows.h"
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
      const int64_t at = head.query - args.x;
      // The last tile sees every key, so it writes what the others add to.
      bool is_first = true;
      for (int64_t tile = (o_.length - 1) / kTile; tile >= 0; --tile) {
        BackwardTile(args, i, head, TileAt(tile * kTile), is_first ? 0.0F : 1.0F, args.dx + at);
        is_first = false;
      }
    }
  }

  OpTraits traits() const override { return {.backward_reads_output = true}; }

 private:
  /// Of one sample and one head; rows are 3 * width apart.
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

  Head HeadAt(const float* x, int64_t i) const {
    const float* query = x + i / o_.heads * o_.length * 3 * o_.width + i % o_.heads * head_width_;
    return {query, query + o_.width, query + 2 * o_.width};
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

  /// `beta` is 0 when the gradients of keys and values are to be written, 1 when added to. `dx` is
  /// that of the head's queries.
  void BackwardTile(
      const BackwardArgs& args,
      int64_t i,
      const Head& head,
      const Tile& tile,
      float beta,
      float* dx) {
    const int64_t stride = 3 * o_.width;
    const float* y = args.y + OutputAt(i) + tile.first * o_.width;
    const float* dy = args.dy + OutputAt(i) + tile.first * o_.width;
    float* p = Scores(head, tile);
    for (int64_t row = 0; row < tile.rows; ++row) {
      float* line = p + row * o_.length;
      const int64_t visible = VisibleFrom(tile.first + row);
      ExpRow(*LogSum(i, tile.first + row), line, visible);
      std::fill(line + visible, line + tile.keys, 0.0F);
    }
    float* d_value = dx + 2 * o_.width;
    Multiply(
        tile.keys,
        head_width_,
        tile.rows,
        1,
        {p, o_.length, true},
        {dy, o_.width},
        beta,
        d_value,
        stride);
    float* dp = p + kTile * o_.length;
    Multiply(
        tile.rows,
        tile.keys,
        head_width_,
        1,
        {dy, o_.width},
        {head.value, stride, true},
        0,
        dp,
        o_.length);
    for (int64_t row = 0; row < tile.rows; ++row) {
      ScoreGradient(
          y + row * o_.width,
          dy + row * o_.width,
          dp + row * o_.length,
          p + row * o_.length,
          tile.keys);
    }
    const Matrix ds{p, o_.length};
    Multiply(
        tile.rows,
        head_width_,
        tile.keys,
        scale_,
        ds,
        {head.key, stride},
        0,
        dx + tile.first * stride,
        stride);
    Multiply(
        tile.keys,
        head_width_,
        tile.rows,
        scale_,
        {p, o_.length, true},
        {head.query + tile.first * stride, stride},
        beta,
        dx + o_.width,
        stride);
  }

  /// p = p * (dp - sum of y * dy), of one row.
  void ScoreGradient(
      const float* y, const float* dy, const float* dp, float* p, int64_t keys) const {
    float mean = 0;
    for (int64_t j = 0; j < head_width_; ++j) {
      mean += y[j] * dy[j];
    }
    for (int64_t j = 0; j < keys; ++j) {
      p[j] *= dp[j] - mean;
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
