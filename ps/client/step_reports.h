#pragma once

#include <deque>
#include <optional>
#include <utility>

#include "ps/base/random.h"
#include "ps/base/retry.h"
#include "ps/base/time.h"
#include "ps/client/coordinator_link.h"
#include "ps/client/session.h"
#include "ps/proto/messages.h"
#include "ps/proto/outbox.h"

namespace ps::client {

/// Steps and evaluations that are done, until the coordinator has them: sent again and again, over
/// one connection after another.
class StepReports {
 public:
  /// All outlive it.
  StepReports(const Session& session, CoordinatorLink& coordinator, Random& random)
      : session_(session), coordinator_(coordinator), random_(random) {}

  /// The session begins.
  void Begin() {
    retry_ = RetryTimer(session_.settings.timing.retry_first, session_.settings.timing.retry_limit);
  }

  void Reset() {
    steps_.clear();
    evaluation_.reset();
  }

  void Add(const proto::StepDone& done, TimePoint now, proto::Outbox* out) {
    steps_.push_back(done);
    SendFresh(now, out);
  }

  /// Requires: !has_evaluation().
  void Add(proto::EvaluateReport evaluation, TimePoint now, proto::Outbox* out) {
    evaluation_ = std::move(evaluation);
    SendFresh(now, out);
  }

  void OnStepAck(const proto::StepAck& ack) {
    while (ack.incarnation == session_.incarnation && !steps_.empty() &&
           steps_.front().step <= ack.last_step) {
      steps_.pop_front();
    }
  }

  void OnEvaluateAck(const proto::EvaluateAck& ack) {
    if (evaluation_ && evaluation_->lease == ack.lease) {
      evaluation_.reset();
    }
  }

  bool has_steps() const { return !steps_.empty(); }

  bool has_evaluation() const { return evaluation_.has_value(); }

  /// Stops repeating when all is acknowledged.
  void Settle() {
    if (steps_.empty() && !evaluation_) {
      retry_.Stop();
    }
  }

  /// Returns whether something was sent again.
  bool OnTick(TimePoint now, proto::Outbox* out) {
    if (!retry_.IsDue(now)) {
      return false;
    }
    Send(now, out);
    retry_.Again(now, &random_);
    return true;
  }

  /// A new connection stands: what is open is due.
  void Hurry(TimePoint now) {
    if (retry_.is_armed()) {
      retry_.DueAt(now);
    }
  }

 private:
  void SendFresh(TimePoint now, proto::Outbox* out) {
    retry_.Stop();
    Send(now, out);
  }

  void Send(TimePoint now, proto::Outbox* out) {
    if (!retry_.is_armed()) {
      retry_.Start(now, &random_);
    }
    if (!steps_.empty()) {
      coordinator_.Send(
          proto::StepReport{session_.incarnation, {steps_.begin(), steps_.end()}}, out);
    }
    if (evaluation_) {
      coordinator_.Send(*evaluation_, out);
    }
  }

  const Session& session_;
  CoordinatorLink& coordinator_;
  Random& random_;

  std::deque<proto::StepDone> steps_;
  std::optional<proto::EvaluateReport> evaluation_;
  RetryTimer retry_;
};

}  // namespace ps::client
