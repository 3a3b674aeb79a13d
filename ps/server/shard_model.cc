// The model between shard and coordinator: initial values come from there before the shard is
// ready, and at the end the parameters go there. Both by pulls, of no worker.

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "ps/server/shard_core.h"

namespace ps::server {

void ShardCore::BeginValues(const proto::ShardSetup& setup) {
  std::vector<proto::ChunkAssignment> own;
  std::ranges::copy_if(
      setup.placement.chunks, std::back_inserter(own), [this](const proto::ChunkAssignment& c) {
        return c.shard == shard_;
      });
  open_setup_->values = {std::move(own), settings_.frame_bytes};
}

/// Of what did not come yet. An answer that is still on its way ends with the new question.
void ShardCore::AskForValues(TimePoint now, proto::Outbox* out) {
  open_setup_->next_ask = now + settings_.timing.lease;
  proto::PullRequest pull;
  pull.held = open_setup_->values.Held();
  out->Send(coordinator_, ++last_request_id_, std::move(pull));
}

void ShardCore::OnValues(const Call& call, const proto::PullReply& reply) {
  if (!open_setup_ || !open_setup_->setup.has_values) {
    return;  // a part that came twice
  }
  const Result<bool> is_new = open_setup_->values.Take(
      reply, [this](size_t index, uint32_t begin, std::span<const float> values) {
        store_.Initialize(index, begin, values);
        return Status::Ok();
      });
  if (!is_new.ok()) {
    Refuse(call, is_new.status(), 0);
    return;
  }
  open_setup_->next_ask = call.now + settings_.timing.lease;
  if (open_setup_->values.is_complete()) {
    FinishSetup(call, ChunkRefs(store_.size()));
  }
}

/// A newer pull takes the place of an older one and of its answer.
void ShardCore::OnModelPull(const Call& call, proto::PullRequest& pull) {
  const Status status = is_set_up_ ? CheckHeld(pull.held, placement_version_)
                                   : Status::Unavailable("this shard is not set up yet");
  if (!status.ok()) {
    Refuse(call, status, 0);
    return;
  }
  for (proto::ChunkVersion& chunk : pull.held) {
    chunk.version = std::numeric_limits<Version>::max();  // need not come, however new it is
  }
  model_answer_.reset();
  model_pull_ = {call.peer, call.request_id, 0, true, std::move(pull.held), life_, call.now, {}};
  ContinueModel(false, call.out);
}

/// Not while a round is being committed: nobody sees parts of two rounds.
void ShardCore::ContinueModel(bool is_urgent, proto::Outbox* out) {
  if (model_pull_ && !commit_) {
    model_answer_ = MakeAnswer(*model_pull_);
    model_pull_.reset();
  }
  if (!model_answer_ || (!is_urgent && out->IsBacklogged(model_answer_->peer))) {
    return;
  }
  if (SendAnswer(&*model_answer_, is_urgent, out)) {
    model_answer_.reset();
  }
}

}  // namespace ps::server
