#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "ps/base/logger.h"
#include "ps/coordinator/state/touched_rows.h"
#include "ps/proto/event.h"
#include "ps/proto/state/job_state.h"

namespace ps::coordinator {

/// What has happened in the job and was decided: a line of the log for people, and a value that is
/// part of the state, so that a journal and the status have it. The last ones are kept.
class Events {
 public:
  static constexpr size_t kLastMax = 256;

  /// Works on `state` and marks what it changes. All outlive it.
  Events(proto::EventsState* state, const Logger* log, TouchedRows* touched)
      : state_(state), log_(log), touched_(touched) {}

  /// `others`: what else there was to decide on.
  void Tell(
      proto::EventCode code,
      std::initializer_list<LogField> fields = {},
      const std::string& others = "") {
    proto::LogEvent(*log_, code, fields);
    proto::EventRow event = proto::MakeEvent(code, std::vector<LogField>(fields));
    if (event.text.empty()) {
      event.text = proto::EventCodeName(code);  // better than not to be told
    }
    event.others = others;
    touched_->Mark(RowKind::kEvent, state_->before + state_->last.size());
    event.number = state_->before + state_->last.size() + 1;
    state_->last.push_back(std::move(event));
    if (state_->last.size() > kLastMax) {
      state_->last.pop_front();
      touched_->Mark(RowKind::kEvent, state_->before++);
    }
  }

  /// The events since the last call have happened at that time: the core knows no clock of the
  /// world.
  void Stamp(double unix_s) {
    for (size_t i = state_->last.size(); i > 0 && state_->last[i - 1].unix_s == 0; --i) {
      state_->last[i - 1].unix_s = unix_s;
      touched_->Mark(RowKind::kEvent, state_->before + i - 1);
    }
  }

 private:
  proto::EventsState* const state_;
  const Logger* const log_;
  TouchedRows* const touched_;
};

}  // namespace ps::coordinator
