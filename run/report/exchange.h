#pragma once

#include <cstdint>
#include <string>

#include "ps/proto/messages.h"

namespace ps::run {

/// What workers have moved, and what of their time they have computed: all of them together, or
/// one.
struct ExchangeTotals {
  uint64_t bytes_pushed = 0;
  uint64_t bytes_pulled = 0;
  uint64_t samples = 0;  // behind them
  double compute_s = 0;
  double wait_s = 0;
  proto::WorkerTimes times;  // held_back: the largest

  void Add(const proto::WorkerStats& stats);

  /// The share of the time in which they computed; 0 before the first step.
  double computing() const;
  /// `bytes`: bytes_pushed or bytes_pulled.
  double PerSample(uint64_t bytes) const;
};

/// All workers of the status.
ExchangeTotals ExchangeOf(const proto::JobStatus& status);

/// Whether somebody has chosen anything but f32 after every minibatch.
bool IsPlain(const proto::StepsStatus& steps);

/// "push int8 with error feedback (auto), pull bf16, every 50 minibatches, since 12,000 samples".
std::string StepsText(const proto::StepsStatus& steps);

/// "63.8 MiB pushed, 68.9 MiB pulled; a sample 2.7 KiB and 2.9 KiB".
std::string ExchangeText(const ExchangeTotals& totals);

}  // namespace ps::run
