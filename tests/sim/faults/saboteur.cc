#include "tests/sim/faults/saboteur.h"

#include <cmath>
#include <cstring>
#include <memory>
#include <variant>

#include "ps/base/buffer.h"
#include "ps/base/check.h"
#include "ps/proto/state/job_state.h"

namespace ps::sim {

/// Before the first switch nothing differs.
void Saboteur::TamperWithMode(int node, proto::Membership* membership) {
  if (!first_mode_) {
    first_mode_ = membership->mode;
    first_node_ = node;
  }
  if (membership->mode == *first_mode_) {
    return;
  }
  if (sabotage_ == Sabotage::kEarlierMode ||
      (sabotage_ == Sabotage::kModeOfOneServer && node != first_node_)) {
    membership->mode = *first_mode_;
  } else if (sabotage_ == Sabotage::kOtherRound && membership->mode.mode == proto::Mode::kBsp) {
    ++membership->round;
  }
}

void Saboteur::TamperWithOffer(proto::ChunksOffer* offer) const {
  if (sabotage_ == Sabotage::kForgottenAhead) {
    for (proto::OfferedChunk& chunk : offer->chunks) {
      chunk.ahead.clear();
    }
  } else if (sabotage_ == Sabotage::kForgottenClock) {
    offer->samples_done = 0;
  } else if (sabotage_ == Sabotage::kStepTooMany) {
    for (proto::OfferedMember& member : offer->members) {
      ++member.last_step;
    }
  }
}

/// NaN in pushes of f32 only.
void Saboteur::TamperWithPush(proto::PushRequest* push) {
  if (sabotage_ == Sabotage::kStepsOfBefore) {
    first_steps_ = first_steps_ == 0 ? push->local_steps : first_steps_;
    push->local_steps = first_steps_;
  }
  if (sabotage_ != Sabotage::kTakenNaN) {
    return;
  }
  const std::span<const std::byte> bytes = push->payload.bytes();
  auto taken = std::make_shared<Buffer>(bytes.size());
  std::memcpy(taken->data(), bytes.data(), bytes.size());
  for (float& value : taken->floats()) {
    value = std::isfinite(value) ? value : 0;
  }
  push->payload = proto::Payload::Own(taken, bytes.size());
}

void Saboteur::TamperWithReport(proto::StepReport* report) const {
  for (proto::StepDone& done : report->steps) {
    if (sabotage_ == Sabotage::kHiddenRejection) {
      done.is_rejected = false;
    } else if (sabotage_ == Sabotage::kLivesNotSeen) {
      done.lives = UINT64_MAX;
    }
  }
}

/// A difference to a frame that did not come looks like one to the last that did.
void Saboteur::TamperWithValues(int node, proto::PullReply* reply) {
  if (sabotage_ != Sabotage::kAnyBase || reply->number == 0) {
    return;
  }
  for (proto::PullReply::Chunk& chunk : reply->chunks) {
    uint64_t& last = frames_[{node, chunk.key, chunk.element_begin}];
    if (chunk.base == 0) {
      last = reply->number;
    } else if (last != 0 && reply->number > last) {
      chunk.base = last;
      last = reply->number;
    }
  }
}

void Saboteur::Tamper(int node, proto::Message* message) {
  auto* const setup = std::get_if<proto::ShardSetup>(message);
  if (setup != nullptr) {
    TamperWithMode(node, &setup->membership);
  } else if (auto* const membership = std::get_if<proto::Membership>(message)) {
    TamperWithMode(node, membership);
  }
  if (auto* const offer = std::get_if<proto::ChunksOffer>(message); offer != nullptr) {
    TamperWithOffer(offer);
  }
  if (auto* const push = std::get_if<proto::PushRequest>(message); push != nullptr) {
    TamperWithPush(push);
  } else if (auto* const report = std::get_if<proto::StepReport>(message); report != nullptr) {
    TamperWithReport(report);
  } else if (auto* const values = std::get_if<proto::PullReply>(message); values != nullptr) {
    TamperWithValues(node, values);
  }
  if (setup != nullptr && sabotage_ == Sabotage::kMixedLives) {
    for (proto::CountedStep& counted : setup->counted) {
      ++counted.step;
    }
  }
  if (sabotage_ != Sabotage::kEarlierPush) {
    return;
  }
  if (const auto* const membership = std::get_if<proto::Membership>(message);
      membership != nullptr) {
    for (const proto::Member& member : membership->members) {
      ever_[member.incarnation] = member;
    }
  } else if (setup != nullptr && setup->life > 1) {
    for (const auto& [incarnation, member] : ever_) {
      setup->membership.members.push_back(member);
      setup->counted.push_back({incarnation, 0});
    }
  }
}

uint64_t Saboteur::Undone(uint64_t undone) {
  first_undone_ = first_undone_ == 0 ? undone : first_undone_;
  return sabotage_ == Sabotage::kFirstLossAlone ? first_undone_ : undone;
}

void Saboteur::TamperWithResumed(checkpoint::Manifest* manifest) const {
  Result<proto::JobState> job = proto::DecodeJobState(manifest->job_state);
  PS_CHECK(job.ok()) << job.status();
  if (sabotage_ == Sabotage::kOlderState && states_.size() > 1) {
    manifest->job_state = states_[states_.size() - 2];
  } else if (sabotage_ == Sabotage::kUsedNumbers) {
    job->membership.incarnation_max = Incarnation();
    manifest->job_state = proto::EncodeJobState(*job);
  }
}

void Saboteur::Note(const checkpoint::Manifest& manifest) {
  states_.push_back(manifest.job_state);
}

void Saboteur::Tamper(checkpoint::Manifest* manifest) const {
  if (sabotage_ == Sabotage::kForgottenSteps && states_.size() > 1) {
    manifest->job_state = states_[states_.size() - 2];
  } else if (sabotage_ == Sabotage::kUndoneStep) {
    Result<proto::JobState> job = proto::DecodeJobState(manifest->job_state);
    PS_CHECK(job.ok()) << job.status();
    for (auto& [incarnation, member] : job->membership.members) {
      ++member.reported;
    }
    manifest->job_state = proto::EncodeJobState(*job);
  }
}

}  // namespace ps::sim
