#include "psctl/control.h"

#include <utility>
#include <variant>

#include "ps/base/flags.h"
#include "ps/net/client.h"

namespace ps::psctl {
namespace {

constexpr Duration kDeadline = std::chrono::seconds(5);
constexpr size_t kSmallFileBytes = 4096;

template <typename Reply>
Result<Reply> Ask(const RunPaths& run, const proto::Message& request) {
  const Result<std::string> address = ReadSmallFile(run.address(), kSmallFileBytes);
  if (!address.ok()) {
    return Status::Unavailable(BaseName(run.root) + " does not listen yet; try again in a moment");
  }
  PS_ASSIGN(const HostPort place, ParseHostPort(*address));
  proto::Hello hello;
  hello.role = proto::Role::kControl;
  hello.node = "psctl";
  PS_ASSIGN(hello.token, ReadSmallFile(run.token(), kSmallFileBytes));
  Result<proto::Message> reply = net::Call(place.host, place.port, hello, request, kDeadline);
  if (!reply.ok()) {
    return std::move(reply).status().Annotate(BaseName(run.root));
  }
  if (!std::holds_alternative<Reply>(*reply)) {
    return Status::InvalidArgument(
        BaseName(run.root) + " answered with " +
        std::string(proto::MessageTypeName(proto::MessageTypeOf(*reply))));
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

}  // namespace ps::psctl
