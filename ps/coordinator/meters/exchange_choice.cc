#include "ps/coordinator/meters/exchange_choice.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <vector>

#include "ps/base/text.h"
#include "ps/proto/limits.h"

namespace ps::coordinator {
namespace {

constexpr double kTarget = 0.95;
/// A change to more is made where the share falls short by so much, one to less where it would
/// still be so much above; in between everything stays.
constexpr double kShort = 0.02;
constexpr double kSpare = 0.015;
/// Where nothing reaches the target, a stronger one has to bring more than that.
constexpr double kNoGain = 0.01;

constexpr uint32_t kLocalStepsMost = 128;
constexpr uint64_t kPushesOfEpoch = 20;
constexpr uint32_t kLocalStepsLeast = 2;

using codec::EncodingKind;

/// From the mildest on.
constexpr std::array kEncodings = {
    EncodingKind::kF32, EncodingKind::kBf16, EncodingKind::kInt8, EncodingKind::kInt4};

double BytesOf(const codec::Encoding& encoding) {
  constexpr uint64_t kValues = uint64_t{1} << 20;
  return static_cast<double>(encoding.SizeOf(kValues));
}

/// What `measure` would be.
double ComputingWith(
    const proto::StepSettings& settings,
    const proto::StepSettings& now,
    const ExchangeMeasure& measure) {
  const double steps = double{1} * settings.local_steps / now.local_steps;
  const double bytes = BytesOf(settings.push) / BytesOf(now.push);
  return ExchangeMeasure{measure.compute_s * steps, measure.push_s * bytes, measure.pull_s}
      .computing();
}

bool IsFoundShort(const proto::StepSettings& settings, const ExchangeBounds& bounds) {
  return std::ranges::any_of(bounds.found_short, [&](const proto::StepSettings& found) {
    return settings.local_steps <= found.local_steps &&
           BytesOf(settings.push) >= BytesOf(found.push);
  });
}

std::vector<proto::StepSettings> Candidates(
    const proto::StepSettings& now, const ExchangeBounds& bounds) {
  std::vector<uint32_t> steps = {now.local_steps};
  if (bounds.chosen.local_steps) {
    steps.clear();
    for (uint32_t count = kLocalStepsLeast; count <= bounds.local_steps_max; count *= 2) {
      steps.push_back(count);
    }
  }
  std::vector<codec::Encoding> pushes = {now.push};
  if (bounds.chosen.push) {
    pushes.assign(kEncodings.size(), {});
    std::ranges::transform(
        kEncodings, pushes.begin(), [](EncodingKind kind) { return codec::Encoding{kind}; });
  }
  // int4 costs more than local steps do, so it comes after all of them.
  const auto is_last = [&](const codec::Encoding& push) {
    return bounds.chosen.push && push.kind == EncodingKind::kInt4;
  };
  std::vector<proto::StepSettings> candidates;
  const auto add = [&](uint32_t count, const codec::Encoding& push) {
    proto::StepSettings candidate = now;
    candidate.local_steps = count;
    candidate.push = push;
    if (candidate == now || !IsFoundShort(candidate, bounds)) {
      candidates.push_back(candidate);
    }
  };
  for (const uint32_t count : steps) {
    for (const codec::Encoding& push : pushes) {
      if (!is_last(push)) {
        add(count, push);
      }
    }
  }
  if (is_last(pushes.back())) {
    add(steps.back(), pushes.back());
  }
  return candidates;
}

/// The first that reaches `share`; else the first that is nearly as good as the best.
proto::StepSettings FirstThatReaches(
    double share,
    const std::vector<proto::StepSettings>& candidates,
    const proto::StepSettings& now,
    const ExchangeMeasure& measure) {
  double best = 0;
  for (const proto::StepSettings& candidate : candidates) {
    best = std::max(best, ComputingWith(candidate, now, measure));
  }
  const double enough = best >= share ? share : best - kNoGain;
  return *std::ranges::find_if(candidates, [&](const proto::StepSettings& candidate) {
    return ComputingWith(candidate, now, measure) >= enough;
  });
}

}  // namespace

double ExchangeMeasure::computing() const {
  return compute_s > 0 ? compute_s / (compute_s + push_s + pull_s) : 0;
}

std::optional<ExchangeChoice> ChooseExchange(
    const proto::StepSettings& now, const ExchangeMeasure& measure, const ExchangeBounds& bounds) {
  const double share = measure.computing();
  if (share == 0 || (!bounds.chosen.push && !bounds.chosen.local_steps)) {
    return std::nullopt;
  }
  const bool is_short = share < kTarget - kShort;
  if (!is_short && bounds.is_overlapping) {
    return std::nullopt;
  }
  const std::vector<proto::StepSettings> candidates = Candidates(now, bounds);
  if (candidates.empty()) {
    return std::nullopt;
  }
  const proto::StepSettings wanted =
      FirstThatReaches(is_short ? kTarget : kTarget + kSpare, candidates, now, measure);
  const double expected = ComputingWith(wanted, now, measure);
  const bool is_better = expected > share + kNoGain;
  const bool is_milder = expected < share;
  if (wanted == now || (is_short ? !is_better : !is_milder)) {
    return std::nullopt;
  }
  return ExchangeChoice{
      wanted,
      is_short,
      fmt::format(
          "workers compute for {} of the time that they exchange in, {} is expected",
          FormatPercent(share, 0),
          FormatPercent(expected, 0))};
}

uint32_t AutoLocalStepsMax(uint64_t epoch_samples, uint64_t workers, uint32_t minibatch) {
  const uint64_t of_push = std::max<uint64_t>(minibatch, 1);
  const uint64_t of_epoch =
      epoch_samples / (kPushesOfEpoch * std::max<uint64_t>(workers, 1) * of_push);
  return static_cast<uint32_t>(std::clamp<uint64_t>(
      std::min(of_epoch, proto::kStepSamplesMax / of_push), kLocalStepsLeast, kLocalStepsMost));
}

}  // namespace ps::coordinator
