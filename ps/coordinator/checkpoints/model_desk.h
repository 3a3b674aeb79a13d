#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "ps/coordinator/checkpoints/best_desk.h"
#include "ps/coordinator/state/job.h"
#include "ps/proto/values_intake.h"

namespace ps::coordinator {

/// Reads the model from the shards when training is over, and writes it to the job's sink: after
/// the workers have left, before the shards are told to. A frame is written when it has come, so
/// that the model is never in memory here. Keeps JobState::model.
class ModelDesk {
 public:
  ModelDesk(Job* job, const BestDesk* best) : job_(job), best_(best) {}

  /// Training is over: whether there is a model to leave, and shards that can tell it. When the job
  /// has failed, shards that are not there now are not waited for.
  void Plan(bool has_failed, TimePoint now);
  /// No model is left, for this reason.
  void GiveUp(const std::string& why);

  /// Goes on with a model that is due, until it is left or given up.
  void Advance(const Call& call);
  void On(const Call& call, const proto::PullReply& message);
  void OnRefusal(const Call& call, const proto::Refusal& message);
  void OnServerLost(uint32_t server, const std::string& why);

 private:
  /// What is being read from a shard.
  struct Reading {
    proto::ValuesIntake values;
    proto::PeerId asked;  // the connection on which it was asked
    TimePoint next_ask{};
    uint32_t asks = 0;  // since it sent something new
  };

  void Begin(const Call& call);
  void Ask(Shard* shard, Reading* reading, const Call& call);
  void WatchAll(const Call& call);
  void Watch(Reading* reading, Shard* shard, const Call& call);
  void AwaitFile();

  Job* const job_;
  const BestDesk* const best_;
  uint64_t last_request_id_ = 0;
  bool is_begun_ = false;
  TimePoint begun_at_{};
  bool is_finishing_ = false;
  std::map<ShardId, Reading> readings_;  // of shards whose values are not all here
};

}  // namespace ps::coordinator
