#pragma once

#include "ps/base/tensor_spec.h"
#include "ps/codec/encoding.h"
#include "ps/proto/job/job_config.h"
#include "ps/proto/mode_messages.h"

namespace ps::proto {

using ps::codec::Encoding;

// What travels as what, by a job. Requires of each: the job's config has been checked.

/// What the gradients of an optimizer's tensors travel as.
Encoding PushEncodingOf(const JobConfig& config);

/// What of a tensor is pushed.
enum class PushKind : uint8_t {
  kGradient,
  kObservation,  // of UpdateRule::kAverage
  kNothing,      // it is frozen
};

constexpr PushKind PushKindOf(UpdateRule rule, bool is_frozen = false) {
  return is_frozen                        ? PushKind::kNothing
         : rule == UpdateRule::kOptimizer ? PushKind::kGradient
                                          : PushKind::kObservation;
}

/// What it travels as in a job of that encoding. Observations stay as they are: they are averaged
/// over many steps, where small differences count.
constexpr Encoding PushEncodingOf(Encoding job, PushKind kind) {
  return kind == PushKind::kGradient  ? job
         : kind == PushKind::kNothing ? Encoding{ps::codec::EncodingKind::kNothing}
                                      : Encoding{};
}

/// Whether a worker's device leaves its gradients as they travel, rounded. Else they are f32, and
/// the worker encodes them if that is not what they travel as.
bool IsEncodedByDevice(const JobConfig& config);

/// Whether a worker keeps what encoding has lost of its gradients.
bool HasErrorFeedback(const JobConfig& config);

/// What parameters travel as to a worker that trains. int8 and int4: differences to what it holds.
Encoding PullEncodingOf(const JobConfig& config);

/// Whether pulls of that encoding bring differences. Parameters by themselves do not fit into so
/// few bits.
constexpr bool HasDifferences(Encoding pull) {
  return pull.kind == ps::codec::EncodingKind::kInt8 || pull.kind == ps::codec::EncodingKind::kInt4;
}

/// What values travel as to a worker that trains when they are no differences.
constexpr Encoding WholeEncodingOf(Encoding pull) {
  return HasDifferences(pull) ? Encoding{ps::codec::EncodingKind::kBf16} : pull;
}

/// After so many differences in a row a part of a chunk travels as a value again. Both sides do the
/// same arithmetic, so nothing adds up; it ends what a machine that computes wrongly has begun.
inline constexpr uint32_t kDifferencesInARow = 99;

/// Bytes of a pull of so many parameters in one piece, on average.
double PulledBytesOf(Encoding pull, uint64_t count);
/// What the steps of the job begin with.
StepSettings StepSettingsOf(const JobConfig& config);
AutoSettings AutoSettingsOf(const JobConfig& config);

}  // namespace ps::proto
