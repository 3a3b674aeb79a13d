#pragma once

#include <string>

#include "ps/base/status.h"
#include "ps/base/time.h"
#include "ps/proto/messages.h"

namespace ps::net {

/// Connects to a socket file of this machine, says `hello`, sends `request`, waits for the first
/// message that comes back, and closes. One attempt, `deadline` for everything. For commands; a
/// long-lived peer uses an Endpoint. Errors: a Refusal as the status it carries; kUnavailable when
/// nobody listens or the connection is lost; kDeadlineExceeded. Blocks the calling thread, on which
/// it runs a loop of its own.
Result<proto::Message> Call(
    const std::string& socket_file,
    const proto::Hello& hello,
    const proto::Message& request,
    Duration deadline);

}  // namespace ps::net
