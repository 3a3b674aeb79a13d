#include "run/directory/control.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <utility>
#include <variant>

#include "ps/net/client.h"

namespace ps::run {
namespace {

constexpr Duration kDeadline = std::chrono::seconds(5);

/// The reason why a run does not answer, in words about the run.
Status Explain(const RunPaths& run, const Status& why) {
  const std::string name = BaseName(run.root);
  if (!FileLock::IsHeld(run.lock())) {
    return Status::Unavailable(fmt::format("{} is not running any more", name));
  }
  if (::access(run.control().c_str(), W_OK) != 0) {
    return errno == EACCES
               ? Status::InvalidArgument(
                     fmt::format("{} answers only the user who started it", name))
               : Status::Unavailable(fmt::format(
                     "{} does not listen yet, or not any more; try again in a moment", name));
  }
  std::string message(why.message());
  if (why.code() == StatusCode::kUnavailable) {
    // A shared directory shows the lock and the file to other machines, which have no listener.
    message += "; if the run is on another machine, ask there";
  }
  return Status(why.code(), std::move(message)).Annotate(name);
}

template <typename Reply>
Result<Reply> Ask(
    const RunPaths& run,
    const proto::Message& request,
    proto::Asker asker = proto::Asker::kPerson) {
  proto::Hello hello;
  hello.role = proto::Role::kControl;
  hello.node = proto::AskerName(asker);
  Result<proto::Message> reply = net::Call(run.control(), hello, request, kDeadline);
  if (!reply.ok()) {
    return Explain(run, reply.status());
  }
  if (!std::holds_alternative<Reply>(*reply)) {
    return Status::InvalidArgument(fmt::format(
        "{} answered with {}",
        BaseName(run.root),
        proto::MessageTypeName(proto::MessageTypeOf(*reply))));
  }
  return std::get<Reply>(std::move(reply).value());
}

}  // namespace

Result<proto::JobStatus> FetchStatus(const RunPaths& run) {
  PS_ASSIGN(proto::StatusReply reply, Ask<proto::StatusReply>(run, proto::StatusRequest{}));
  return std::move(reply.status);
}

Status AskToStop(const RunPaths& run, bool is_immediate) {
  proto::StopRequest request;
  request.is_immediate = is_immediate;
  PS_ASSIGN([[maybe_unused]] const auto reply, Ask<proto::StopReply>(run, request));
  return Status::Ok();
}

namespace {

uint32_t MillisOf(Duration duration) {
  return static_cast<uint32_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(duration).count());
}

}  // namespace

Result<Duration> GiveNotice(const RunPaths& run, WorkerId worker, bool is_server, Duration grace) {
  const proto::NoticeRequest request{worker, MillisOf(grace), is_server, false};
  PS_ASSIGN(const proto::NoticeReply reply, Ask<proto::NoticeReply>(run, request));
  return Duration(std::chrono::milliseconds(reply.grace_ms));
}

Result<Duration> ReleaseWorker(const RunPaths& run, WorkerId worker, Duration grace) {
  const proto::NoticeRequest request{worker, MillisOf(grace), false, true};
  PS_ASSIGN(const proto::NoticeReply reply, Ask<proto::NoticeReply>(run, request));
  return Duration(std::chrono::milliseconds(reply.grace_ms));
}

Status AskToPause(const RunPaths& run, bool is_paused) {
  PS_ASSIGN(
      [[maybe_unused]] const auto reply,
      Ask<proto::PauseReply>(run, proto::PauseRequest{is_paused}));
  return Status::Ok();
}

Result<proto::ModeReply> AskForMode(const RunPaths& run, const proto::ModeChoice& wanted) {
  return Ask<proto::ModeReply>(run, proto::ModeRequest{wanted});
}

Result<proto::SetReply> AskToSet(
    const RunPaths& run, const std::vector<proto::ConfigOverride>& changes) {
  return Ask<proto::SetReply>(run, proto::SetRequest{changes});
}

Result<proto::ScaleReply> AskToScale(
    const RunPaths& run, const std::vector<proto::ScaleChange>& changes, proto::Asker asker) {
  return Ask<proto::ScaleReply>(run, proto::ScaleRequest{changes}, asker);
}

}  // namespace ps::run
