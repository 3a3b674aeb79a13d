#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "ps/base/time.h"
#include "ps/proto/fleet_actions.h"
#include "ps/proto/outbox.h"

namespace ps::coordinator {

/// Keeps what an event of the core lets out, messages and processes, until the rows that it follows
/// from are in the journal: nobody is to know what another coordinator would not know that goes on
/// from there. Values of the model pass at once: they say nothing of the job's state, and how fast
/// they leave decides how many follow.
class HeldOutput final : public proto::Outbox, public proto::FleetActions {
 public:
  /// Both outlive it.
  HeldOutput(proto::Outbox* out, proto::FleetActions* fleet) : out_(out), fleet_(fleet) {}

  void Send(proto::PeerId to, uint64_t request_id, proto::Message message) override;
  void Close(proto::PeerId peer) override;

  bool IsBacklogged(proto::PeerId peer) const override { return out_->IsBacklogged(peer); }

  void StartServer(uint32_t server, LaunchId launch) override;
  void StartWorker(WorkerId seat, LaunchId launch, const proto::WorkerGroup& group) override;
  void KillWorker(WorkerId seat) override;
  void KillServer(uint32_t server, LaunchId keep) override;

  bool HasServer(uint32_t server) const override { return fleet_->HasServer(server); }

  bool is_empty() const { return held_.empty(); }

  /// Lets everything out, in order.
  void Release();

 private:
  struct Sent {
    proto::PeerId to;
    uint64_t request_id = 0;
    proto::Message message;
  };

  struct Closed {
    proto::PeerId peer;
  };

  struct Server {
    uint32_t server = 0;
    LaunchId launch;
  };

  struct Worker {
    WorkerId seat;
    LaunchId launch;
    proto::WorkerGroup group;
  };

  struct Kill {
    WorkerId seat;
  };

  struct ServerKill {
    uint32_t server = 0;
    LaunchId keep;
  };

  proto::Outbox* const out_;
  proto::FleetActions* const fleet_;
  std::vector<std::variant<Sent, Closed, Server, Worker, Kill, ServerKill>> held_;
};

}  // namespace ps::coordinator
