#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "checkpoint/manifest.h"
#include "ps/base/ids.h"
#include "ps/proto/messages.h"
#include "tests/sim/scenario.h"

namespace ps::sim {

/// Makes of what it sees what a core with that fault would take it for.
class Saboteur {
 public:
  explicit Saboteur(Sabotage sabotage) : sabotage_(sabotage) {}

  /// A message that a node is about to take.
  void Tamper(int node, proto::Message* message);
  /// The checkpoint exists.
  void Note(const checkpoint::Manifest& manifest);
  /// A manifest that the coordinator is about to go back to.
  void Tamper(checkpoint::Manifest* manifest) const;
  /// One that a run is resumed from.
  void TamperWithResumed(checkpoint::Manifest* manifest) const;
  /// Steps that the coordinator reports as undone.
  uint64_t Undone(uint64_t undone);

 private:
  void TamperWithMode(int node, proto::Membership* membership);
  void TamperWithOffer(proto::ChunksOffer* offer) const;
  void TamperWithPush(proto::PushRequest* push);
  void TamperWithReport(proto::StepReport* report) const;
  void TamperWithValues(int node, proto::PullReply* reply);

  const Sabotage sabotage_;
  std::map<Incarnation, proto::Member> ever_;  // who has taken part
  std::optional<proto::ModeChoice> first_mode_;
  uint32_t first_steps_ = 0;
  int first_node_ = 0;         // of those that were told of it
  uint64_t first_undone_ = 0;  // with the first loss
  // The frame that brought a node a part last, by chunk and first element.
  std::map<std::tuple<int, ChunkKey, uint32_t>, uint64_t> frames_;
  std::vector<std::vector<std::byte>> states_;  // of the job, by checkpoint that exists
};

}  // namespace ps::sim
