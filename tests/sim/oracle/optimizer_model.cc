#include "tests/sim/oracle/optimizer_model.h"

#include <algorithm>
#include <cmath>

#include "checkpoint/model/half.h"

#pragma STDC FP_CONTRACT OFF

namespace ps::sim {
namespace {

/// What takes the place of a gradient: so much of it, and so much of the momentum.
struct Shares {
  float gradient = 1;
  float momentum = 0;
};

/// The sum of x * y, element i in the (i modulo 8)-th of eight sums.
double ProductOf(std::span<const float> x, std::span<const float> y) {
  double sums[8] = {};
  for (size_t i = 0; i < x.size(); ++i) {
    sums[i % 8] += double{x[i]} * double{y[i]};
  }
  double sum = 0;
  for (const double s : sums) {
    sum += s;
  }
  return sum;
}

Shares HelocoShares(std::span<const float> gradient, std::span<const float> momentum) {
  const double g = std::sqrt(ProductOf(gradient, gradient));
  const double m = std::sqrt(ProductOf(momentum, momentum));
  if (g == 0 || m <= 1e-12 * g) {
    return {};
  }
  const double confidence = g / (g + 3 * m);
  const double cosine = std::clamp(ProductOf(gradient, momentum) / (g * m), -1.0, 1.0);
  if (cosine >= 0.2) {
    return {};
  }
  if (cosine < 0) {
    const double b = std::min(0.5, 0.5 * -cosine * confidence);
    return {1, static_cast<float>(b * -cosine * confidence * (g / m))};
  }
  const double l = std::min(1.0, (1 - cosine) * confidence);
  const double length = std::sqrt((1 - l) * (1 - l) + l * l + 2 * l * (1 - l) * cosine);
  return {static_cast<float>((1 - l) / length), static_cast<float>(l / length * (g / m))};
}

}  // namespace

ChunkState OptimizerModel::Begin(std::vector<float> value) const {
  const bool has_two = config_.kind == proto::OptimizerKind::kAdam ||
                       config_.kind == proto::OptimizerKind::kAdamw ||
                       config_.kind == proto::OptimizerKind::kDelayedNesterov;
  const bool is_plain = config_.kind == proto::OptimizerKind::kSgd && config_.momentum == 0;
  ChunkState state;
  for (size_t slot = 0; slot < (has_two ? 2U : is_plain ? 0U : 1U); ++slot) {
    state.slots[slot].resize(value.size());
  }
  state.value = std::move(value);
  return state;
}

void OptimizerModel::Apply(
    std::span<const float> gradient, const Rate& rate, uint64_t version, ChunkState* state) const {
  const float lr = rate.lr;
  if (state->every == 0) {
    state->every = is_every_live_ && rate.workers > 0 ? rate.workers : config_.every;
  }
  const bool is_momentum_due = state->every > 0 && version % state->every == 0;
  std::vector<float>& w = state->value;
  std::vector<float>& first = state->slots[0];
  std::vector<float>& second = state->slots[1];
  const float momentum = config_.momentum;
  const auto step_size = static_cast<float>(
      lr / (1.0 - std::pow(double{config_.beta1}, static_cast<double>(version))));
  const auto root_factor = static_cast<float>(
      std::sqrt(1.0 - std::pow(double{config_.beta2}, static_cast<double>(version))));
  const Shares shares =
      config_.kind == proto::OptimizerKind::kHeloco ? HelocoShares(gradient, first) : Shares();
  for (size_t i = 0; i < w.size(); ++i) {
    const float g = gradient[i];
    switch (config_.kind) {
      case proto::OptimizerKind::kSgd:
        if (momentum == 0) {
          w[i] -= lr * g;
          break;
        }
        first[i] = momentum * first[i] + g;
        w[i] -= lr * (config_.nesterov ? g + momentum * first[i] : first[i]);
        break;
      case proto::OptimizerKind::kAdam:
      case proto::OptimizerKind::kAdamw:  // without decay, which no tensor here has
        first[i] = config_.beta1 * first[i] + (1.0F - config_.beta1) * g;
        second[i] = config_.beta2 * second[i] + (1.0F - config_.beta2) * (g * g);
        w[i] -= step_size * (first[i] / (std::sqrt(second[i]) / root_factor + config_.epsilon));
        break;
      case proto::OptimizerKind::kAdagrad:
        first[i] += g * g;
        w[i] -= lr * (g / (std::sqrt(first[i]) + config_.epsilon));
        break;
      case proto::OptimizerKind::kRmsprop:  // without momentum
        first[i] = config_.alpha * first[i] + (1 - config_.alpha) * (g * g);
        w[i] -= lr * (g / (std::sqrt(first[i]) + config_.epsilon));
        break;
      case proto::OptimizerKind::kDelayedNesterov: {
        const auto every = static_cast<float>(state->every);
        second[i] += g;
        float step = g / every;
        if (is_momentum_due) {
          first[i] = momentum * first[i] + second[i] / every;
          step = momentum * first[i] + step;
          second[i] = 0;
        }
        w[i] -= lr * step;
        break;
      }
      case proto::OptimizerKind::kHeloco: {
        const float turned = shares.gradient * g + shares.momentum * first[i];
        const float next = momentum * first[i] + (1.0F - momentum) * turned;
        w[i] -= lr * (turned + momentum * (next + next - first[i]));
        first[i] = next;
        break;
      }
    }
  }
  if (is_momentum_due) {
    state->every = 0;
  }
}

ChunkState OptimizerModel::Rounded(const ChunkState& state) {
  ChunkState rounded = state;
  for (size_t slot = 0; slot < state.slots.size(); ++slot) {
    checkpoint::RoundToBf16(state.slots[slot], rounded.slots[slot]);
  }
  return rounded;
}

ChunkState OptimizerModel::Taken(const ChunkState& state) const {
  ChunkState taken = state;
  if (is_every_live_) {
    std::ranges::fill(taken.slots[1], 0.0F);
    taken.every = 0;
  }
  return taken;
}

std::vector<ChunkState> OptimizerModel::KeptOrRead(
    const ChunkState& state, bool has_bf16_slots) const {
  std::vector<ChunkState> states = {state};
  if (is_every_live_) {
    states.push_back(Taken(state));
  }
  if (has_bf16_slots) {
    states.push_back(Taken(Rounded(state)));
  }
  return states;
}

}  // namespace ps::sim
