#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "ps/base/status.h"
#include "ps/proto/messages.h"

namespace ps::run {

/// How the page's buttons reach the coordinator: with the requests that psctl's commands send.
/// Thread: any; may block for seconds.
struct PageSteering {
  /// Errors: kDeadlineExceeded, kUnavailable. A Refusal is an answer.
  std::function<Result<proto::Message>(proto::Message request)> ask;
  /// As CoordinatorHost::CheckpointNow.
  std::function<Result<uint64_t>()> checkpoint_now;
};

/// Does what a button asks for: {"do": "scale", "type": "", "workers": 4}, {"do": "scale",
/// "servers": 2}, {"do": "drain", "worker": 3, "grace_s": 30}, {"do": "pause"}, {"do": "continue"},
/// {"do": "mode", "mode": "ssp:3"}, {"do": "checkpoint"}, {"do": "stop"}, {"do": "stop", "now":
/// true}. Returns what is said of it. Takes any bytes. Errors: kInvalidArgument (no such request,
/// or the coordinator refuses it), those of PageSteering.
Result<std::string> DoAsAsked(std::string_view body, const PageSteering& steering);

}  // namespace ps::run
