#pragma once

#include <string>

#include "provisioner/planner/planner.h"
#include "ps/base/time.h"
#include "psctl/cli/interrupts.h"
#include "run/report/console.h"

namespace ps::psctl {

/// Ends a search at Ctrl-C or when its time is over, and shows on a terminal how far it is.
class PlanWatch final : public provisioner::SearchWatch {
 public:
  /// `effort`: the longest that it lets searches go on. The clock and the console have to outlive
  /// it.
  PlanWatch(Duration effort, const TimeSource& clock, const run::Console& console);

  /// Takes the line away.
  ~PlanWatch() override;

  PlanWatch(const PlanWatch&) = delete;
  PlanWatch& operator=(const PlanWatch&) = delete;

  bool GoesOn(const provisioner::SearchProgress& progress) override;

  /// Why it ended the search, for a note; empty while it did not.
  const std::string& reason() const { return reason_; }

  /// Takes the line away, so that what follows stands alone.
  void Finish();

 private:
  void Draw(const provisioner::SearchProgress& progress, TimePoint now);

  InterruptGuard interrupts_;
  const TimeSource& clock_;
  const run::Console& console_;
  TimePoint begin_;
  Duration effort_;
  TimePoint drawn_;
  bool has_line_ = false;
  std::string reason_;
};

}  // namespace ps::psctl
