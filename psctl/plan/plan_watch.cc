#include "psctl/plan/plan_watch.h"

#include <cmath>

#include "ps/base/text.h"

namespace ps::psctl {
namespace {

constexpr Duration kSilence = std::chrono::seconds(1);  // most plans are made before
constexpr Duration kRedraw = std::chrono::milliseconds(200);

}  // namespace

PlanWatch::PlanWatch(Duration effort, const TimeSource& clock, const run::Console& console)
    : clock_(clock), console_(console), begin_(clock.Now()), effort_(effort), drawn_(begin_) {}

PlanWatch::~PlanWatch() {
  Finish();
}

bool PlanWatch::GoesOn(const provisioner::SearchProgress& progress) {
  if (!reason_.empty()) {
    return false;
  }
  const TimePoint now = clock_.Now();
  if (interrupts_.IsInterrupted()) {
    reason_ = "the search was interrupted";
  } else if (now - begin_ >= effort_) {
    reason_ = "the search was ended after " + FormatDuration(Seconds(effort_)) + " (--effort)";
  } else if (console_.is_err_terminal && now - begin_ >= kSilence && now - drawn_ >= kRedraw) {
    Draw(progress, now);
  }
  return reason_.empty();
}

void PlanWatch::Draw(const provisioner::SearchProgress& progress, TimePoint now) {
  const double seconds = std::floor(Seconds(now - begin_));
  std::string line = "searching for ";
  line += seconds < 60 ? FormatFixed(seconds, 0) + " s" : FormatDuration(seconds);
  line += ", " + FormatCount(progress.fleets) + " fleets";
  line += std::isfinite(progress.usd_best) ? ", best " + FormatUsd(progress.usd_best) + " USD"
                                           : std::string(", none found yet");
  if (progress.usd_bound > 0) {
    line += ", none below " + FormatUsd(progress.usd_bound);
  }
  line += "; Ctrl-C takes the best so far";
  console_.err("\r\x1b[K" + Clip(line, console_.err_width() - 1));
  drawn_ = now;
  has_line_ = true;
}

void PlanWatch::Finish() {
  if (has_line_) {
    console_.err("\r\x1b[K");
    has_line_ = false;
  }
}

}  // namespace ps::psctl
