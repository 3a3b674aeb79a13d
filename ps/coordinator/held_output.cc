#include "ps/coordinator/held_output.h"

#include <utility>

#include "ps/base/overloaded.h"

namespace ps::coordinator {

void HeldOutput::Send(proto::PeerId to, uint64_t request_id, proto::Message message) {
  if (std::holds_alternative<proto::PullReply>(message)) {
    out_->Send(to, request_id, std::move(message));
  } else {
    held_.emplace_back(Sent{to, request_id, std::move(message)});
  }
}

void HeldOutput::Close(proto::PeerId peer) {
  held_.emplace_back(Closed{peer});
}

void HeldOutput::StartServer(uint32_t server, LaunchId launch) {
  held_.emplace_back(Server{server, launch});
}

void HeldOutput::StartWorker(WorkerId seat, LaunchId launch, const proto::WorkerGroup& group) {
  held_.emplace_back(Worker{seat, launch, group});
}

void HeldOutput::KillWorker(WorkerId seat) {
  held_.emplace_back(Kill{seat});
}

void HeldOutput::KillServer(uint32_t server, LaunchId keep) {
  held_.emplace_back(ServerKill{server, keep});
}

void HeldOutput::Release() {
  for (auto& held : std::exchange(held_, {})) {
    std::visit(
        Overloaded{
            [this](Sent& sent) { out_->Send(sent.to, sent.request_id, std::move(sent.message)); },
            [this](const Closed& closed) { out_->Close(closed.peer); },
            [this](const Server& start) { fleet_->StartServer(start.server, start.launch); },
            [this](const Worker& start) {
              fleet_->StartWorker(start.seat, start.launch, start.group);
            },
            [this](const Kill& kill) { fleet_->KillWorker(kill.seat); },
            [this](const ServerKill& kill) { fleet_->KillServer(kill.server, kill.keep); }},
        held);
  }
}

}  // namespace ps::coordinator
