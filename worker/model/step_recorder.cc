#include "worker/model/step_recorder.h"

#include <algorithm>
#include <utility>

namespace ps::worker {
namespace {

/// Kinds of steps in turns: a few sizes of minibatches, as they follow a fleet.
constexpr size_t kKindsMax = 4;

/// Gradients leave when so many bytes are final: the copy of some overlaps with the arithmetic of
/// others, and a small model is one graph.
constexpr int64_t kLeavingBytes = int64_t{1} << 20;

}  // namespace

bool StepRecorder::CanReplay(const Known& known) const {
  return !known.parts.empty() && std::ranges::all_of(known.parts, [this](const Part& part) {
    return stream_->CanReplay(*part.recording);
  });
}

void StepRecorder::Run(
    const Kind& kind, const std::function<void(const OnFinal&)>& work, const OnFinal& leave) {
  const auto known = std::ranges::find(known_, kind, &Known::kind);
  if (known == known_.end()) {
    if (known_.size() == kKindsMax) {
      known_.erase(known_.begin());
    }
    known_.push_back({kind, {}});
    work(leave);
    return;
  }
  if (!CanReplay(*known)) {
    Record(&*known, work, leave);
    return;
  }
  for (const Part& part : known->parts) {
    stream_->Replay(*part.recording);
    for (const Leaving& tensors : part.leaving) {
      leave(tensors.first_tensor, tensors.count);
    }
  }
}

void StepRecorder::Record(
    Known* known, const std::function<void(const OnFinal&)>& work, const OnFinal& leave) {
  known->parts.clear();
  if (!stream_->BeginRecording()) {
    work(leave);
    return;
  }
  Part part;
  int64_t bytes = 0;
  work([&](uint32_t first_tensor, uint32_t count) {
    if (!part.leaving.empty() && part.leaving.back().first_tensor == first_tensor + count) {
      part.leaving.back().first_tensor = first_tensor;
      part.leaving.back().count += count;
    } else {
      part.leaving.push_back({first_tensor, count});
    }
    for (uint32_t i = first_tensor; i < first_tensor + count; ++i) {
      bytes += (*tensors_)[i].element_count() * static_cast<int64_t>(sizeof(float));
    }
    if (bytes >= kLeavingBytes) {
      Finish(std::exchange(part, {}), known, leave);
      bytes = 0;
      stream_->BeginRecording();
    }
  });
  Finish(std::move(part), known, leave);
}

/// What was recorded is done as it will be from now on.
void StepRecorder::Finish(Part part, Known* known, const OnFinal& leave) {
  part.recording = stream_->EndRecording();
  stream_->Replay(*part.recording);
  for (const Leaving& tensors : part.leaving) {
    leave(tensors.first_tensor, tensors.count);
  }
  known->parts.push_back(std::move(part));
}

}  // namespace ps::worker
