#include "ps/net/client.h"

#include <fmt/core.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "ps/base/logger.h"
#include "ps/net/endpoint.h"
#include "ps/net/loop.h"

namespace ps::net {
namespace {

constexpr uint64_t kRequestId = 1;

/// Takes the first answer and stops the loop.
class Answer final : public EndpointHandler {
 public:
  explicit Answer(Loop* loop) : loop_(loop) {}

  void OnConnected(proto::PeerId, const proto::Hello&) override {}

  void OnMessage(proto::PeerId, uint64_t, proto::Message&& message) override {
    if (const auto* refusal = std::get_if<proto::Refusal>(&message)) {
      const StatusCode code =
          refusal->code == StatusCode::kOk ? StatusCode::kInvalidArgument : refusal->code;
      Finish(Status(code, refusal->message));
    } else {
      Finish(std::move(message));
    }
  }

  void OnClosed(proto::PeerId, const Status& why) override { Finish(why); }

  void Finish(Result<proto::Message> result) {
    if (!result_.has_value()) {
      result_ = std::move(result);
      loop_->Stop();
    }
  }

  Result<proto::Message> Take() { return *std::move(result_); }

 private:
  Loop* loop_;
  std::optional<Result<proto::Message>> result_;
};

}  // namespace

Result<proto::Message> Call(
    const std::string& socket_file,
    const proto::Hello& hello,
    const proto::Message& request,
    Duration deadline) {
  Loop loop;
  Answer answer(&loop);
  EndpointOptions options;
  options.node = hello.node;
  Endpoint endpoint(&loop, options, &NullLogger(), &answer);
  RetryPolicy retry;
  retry.connect_timeout = deadline;
  retry.reply_timeout = deadline;
  endpoint.ConnectToFile(
      socket_file,
      hello,
      [&](Result<proto::PeerId> peer) {
        if (!peer.ok()) {
          answer.Finish(std::move(peer).status());
          return;
        }
        endpoint.Send(peer.value(), kRequestId, request);
      },
      retry);
  loop.RunAfter(deadline, [&] {
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(deadline).count();
    answer.Finish(
        Status::DeadlineExceeded(fmt::format("{} did not answer within {} ms", socket_file, ms)));
  });
  loop.Run();
  return answer.Take();
}

}  // namespace ps::net
