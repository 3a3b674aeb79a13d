#include "worker/model/step_recorder.h"

#include <algorithm>
#include <utility>

namespace ps::worker {
namespace {

/// Kinds of pieces in turns: a few sizes of minibatches, as they follow a fleet, each with a first
/// piece, those between, and a last one.
constexpr size_t kKindsMax = 12;

/// Gradients leave when so many bytes are final: the copy of some overlaps with the arithmetic of
/// others, and a small model is one graph.
constexpr int64_t kLeavingBytes = int64_t{1} << 20;

}  // namespace

/// Work that is recorded, and done part by part as it will be from now on. A part ends where sums
/// leave, and where those from elsewhere are awaited: a graph of one device waits for no other.
class StepRecorder::Taking {
 public:
  /// Requires: the stream has begun to record.
  Taking(const StepRecorder& recorder, const Work& work, std::vector<Part>* parts)
      : recorder_(recorder), work_(work), parts_(*parts) {}

  void OnFinal(uint32_t first, uint32_t count) {
    if (!work_.await) {
      work_.finish(first, count);
    }
    if (!final_.empty() && final_.back().first == first + count) {
      final_.back().first = first;
      final_.back().count += count;
    } else {
      final_.push_back({first, count});
    }
    for (uint32_t i = first; i < first + count; ++i) {
      bytes_ += (*recorder_.tensors_)[i].element_count() * static_cast<int64_t>(sizeof(float));
    }
    if (bytes_ >= kLeavingBytes && first > 0) {  // else End leaves no part without work
      FinishFinal();
      if (!work_.finish_all) {
        Leave(std::move(final_));
        recorder_.stream_->BeginRecording();
      }
      final_.clear();
      bytes_ = 0;
    }
  }

  void End() {
    if (!final_.empty()) {
      FinishFinal();
    }
    if (work_.finish_all) {
      work_.finish_all();
      final_ = {{0, static_cast<uint32_t>(recorder_.tensors_->size())}};
    }
    Leave(std::move(final_));
  }

 private:
  void FinishFinal() {
    if (work_.await) {
      Leave({});
      part_.awaited = final_;
      ForEach(final_, work_.await);
      recorder_.stream_->BeginRecording();
      ForEach(final_, work_.finish);
    }
  }

  void Leave(std::vector<Tensors> tensors) {
    part_.recording = recorder_.stream_->EndRecording();
    part_.leaving = std::move(tensors);
    recorder_.stream_->Replay(*part_.recording);
    ForEach(part_.leaving, work_.leave);
    parts_.push_back(std::exchange(part_, {}));
  }

  const StepRecorder& recorder_;
  const Work& work_;
  std::vector<Part>& parts_;
  Part part_;
  std::vector<Tensors> final_;  // not finished, or not told to leave
  int64_t bytes_ = 0;           // of their gradients
};

void StepRecorder::ForEach(const std::vector<Tensors>& all, const OnTensors& function) {
  for (const Tensors& tensors : all) {
    function(tensors.first, tensors.count);
  }
}

bool StepRecorder::CanReplay(const Known& known) const {
  return !known.parts.empty() && std::ranges::all_of(known.parts, [this](const Part& part) {
    return stream_->CanReplay(*part.recording);
  });
}

void StepRecorder::Run(const Kind& kind, const Work& work) {
  const auto known = std::ranges::find(known_, kind, &Known::kind);
  if (known == known_.end()) {
    if (known_.size() == kKindsMax) {
      known_.erase(known_.begin());
    }
    known_.push_back({kind, {}});
    RunOnce(work);
    return;
  }
  if (!CanReplay(*known)) {
    known->parts.clear();
    if (!stream_->BeginRecording()) {
      RunOnce(work);
      return;
    }
    Taking taking(*this, work, &known->parts);
    work.pass([&](uint32_t first, uint32_t count) { taking.OnFinal(first, count); });
    taking.End();
    return;
  }
  for (const Part& part : known->parts) {
    ForEach(part.awaited, work.await);
    stream_->Replay(*part.recording);
    ForEach(part.leaving, work.leave);
  }
}

void StepRecorder::RunOnce(const Work& work) const {
  work.pass([&](uint32_t first, uint32_t count) {
    if (work.await) {
      work.await(first, count);
    }
    work.finish(first, count);
    if (!work.finish_all) {
      work.leave(first, count);
    }
  });
  if (work.finish_all) {
    work.finish_all();
    work.leave(0, static_cast<uint32_t>(tensors_->size()));
  }
}

}  // namespace ps::worker
