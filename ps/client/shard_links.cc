#include "ps/client/shard_links.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <utility>

namespace ps::client {

void ShardLinks::Connect(const std::vector<proto::ShardAddress>& shards) {
  for (const proto::ShardAddress& address : shards) {
    Add(address);
  }
  for (const proto::ShardAddress& address : shards) {
    addresses_[address.shard] = address;
    host_.ConnectShard(address, session_.incarnation);
  }
}

/// With the chunks that are the shard's by the layout.
void ShardLinks::Add(const proto::ShardAddress& address) {
  std::unique_ptr<ShardLink>& link = links_[address.shard];
  link = std::make_unique<ShardLink>(
      address.shard,
      ShardLink::Identity{session_.worker, session_.incarnation},
      &layout_,
      session_.settings.frame_bytes,
      session_.settings.timing,
      &random_);
  link->SetPlacement(placement_);
  link->SetPullEncoding(pull_encoding_);
}

void ShardLinks::SetPullEncoding(const codec::Encoding& encoding) {
  pull_encoding_ = encoding;
  for (const auto& [shard, link] : links_) {
    link->SetPullEncoding(encoding);
  }
}

void ShardLinks::SetPushEncodings(std::span<const codec::Encoding> encodings) {
  PS_CHECK(!push_) << "other encodings while a push is under way";
  layout_.SetEncodings(encodings);
  for (const auto& [shard, link] : links_) {
    link->TakeEncodings(layout_);
  }
}

void ShardLinks::CloseAll(proto::Outbox* out) {
  for (const auto& [shard, link] : links_) {
    if (link->peer() != proto::PeerId()) {
      out->Close(link->peer());
    }
  }
}

void ShardLinks::Reset() {
  links_.clear();
  addresses_.clear();
  push_.reset();
  forgotten_pushed_ = forgotten_pulled_ = 0;
}

bool ShardLinks::OnConnected(ShardId shard, proto::PeerId peer, TimePoint now, proto::Outbox* out) {
  const auto it = links_.find(shard);
  if (it == links_.end()) {
    return false;
  }
  it->second->OnConnected(peer, now, out);
  return true;
}

ShardLink* ShardLinks::Of(proto::PeerId peer) {
  for (auto& [shard, link] : links_) {
    if (link->peer() == peer) {
      return link.get();
    }
  }
  return nullptr;
}

Status ShardLinks::OnAddresses(
    const proto::ShardAddresses& message, TimePoint now, proto::Outbox* out) {
  if (message.version > placement_ && message.base <= placement_) {
    PS_TRY(TakePlacement(message, now, out));
  }
  for (const proto::ShardAddress& address : message.shards) {
    const auto known = addresses_.find(address.shard);
    if (known != addresses_.end() &&
        (known->second.host != address.host || known->second.port != address.port)) {
      MoveTo(address, out);
    }
  }
  return Status::Ok();
}

void ShardLinks::MoveTo(const proto::ShardAddress& address, proto::Outbox* out) {
  addresses_[address.shard] = address;
  ShardLink& link = *links_.at(address.shard);
  log_.Info(
      "shard_moved",
      {{"shard", address.shard.value}, {"host", address.host}, {"port", address.port}});
  if (link.peer() != proto::PeerId()) {
    out->Close(link.peer());
    link.OnDisconnected();
  }
  host_.ConnectShard(address, session_.incarnation);
}

Status ShardLinks::TakePlacement(
    const proto::ShardAddresses& message, TimePoint now, proto::Outbox* out) {
  const uint64_t known = placement_;
  placement_ = message.version;
  for (const proto::ShardAddress& address : message.shards) {
    if (links_.contains(address.shard)) {
      continue;
    }
    Add(address);
    if (push_) {
      links_.at(address.shard)->BeginPush(*push_);
    }
    addresses_[address.shard] = address;
    host_.ConnectShard(address, session_.incarnation);
  }
  std::set<ShardId> changed;
  for (const proto::ChunkPlace& place : message.places) {
    const ChunkLayout::Chunk* const chunk = layout_.Find(place.key);
    const auto to = links_.find(place.shard);
    if (chunk == nullptr || to == links_.end()) {
      return Status::InvalidArgument(fmt::format(
          "chunk {} is said to be on shard {}; there is no such chunk or no such shard",
          place.key.value,
          place.shard.value));
    }
    // After more than one move it may have been elsewhere when its shard answered.
    const bool may_have_left =
        message.version > known + 1 && links_.at(chunk->shard)->seen_placement() > known;
    if (chunk->shard == place.shard && !may_have_left) {
      continue;
    }
    changed.insert(chunk->shard);
    changed.insert(place.shard);
    ShardLink::Leaving leaving = links_.at(chunk->shard)->Remove(place.key, known);
    leaving.chunk.shard = place.shard;
    to->second->Add(leaving, push_.has_value());
    layout_.Move(place.key, place.shard);
  }
  for (const auto& [shard, link] : links_) {
    if (changed.contains(shard)) {
      link->AfterMove(placement_, now, out);
    } else {
      link->SetPlacement(placement_);
    }
  }
  if (message.base == 0) {
    Forget(message, out);
  }
  log_.Info("chunks_moved", {{"placement", placement_}, {"chunks", message.places.size()}});
  return Status::Ok();
}

/// Those that the message, of all shards, does not name and that have no chunks.
void ShardLinks::Forget(const proto::ShardAddresses& message, proto::Outbox* out) {
  for (auto it = links_.begin(); it != links_.end();) {
    const ShardId shard = it->first;
    const ShardLink& link = *it->second;
    if (link.has_chunks() ||
        std::ranges::find(message.shards, shard, &proto::ShardAddress::shard) !=
            message.shards.end()) {
      ++it;
      continue;
    }
    host_.ForgetShard(shard);
    forgotten_pushed_ += link.bytes_pushed();
    forgotten_pulled_ += link.bytes_pulled();
    if (link.peer() != proto::PeerId()) {
      out->Close(link.peer());
    }
    addresses_.erase(shard);
    it = links_.erase(it);
  }
}

void ShardLinks::OnTick(TimePoint now, proto::Outbox* out) {
  for (auto& [shard, link] : links_) {
    link->OnTick(now, out);
  }
}

void ShardLinks::BeginPush(const PushJob& job) {
  push_ = job;
  for (auto& [shard, link] : links_) {
    link->BeginPush(job);
  }
}

void ShardLinks::TensorReady(uint32_t tensor, TimePoint now, proto::Outbox* out) {
  for (auto& [shard, link] : links_) {
    link->TensorReady(tensor, now, out);
  }
}

std::optional<ShardLinks::Pushed> ShardLinks::AnswerToPush() const {
  Pushed pushed;
  for (const auto& [shard, link] : links_) {
    if (!link->is_push_done() || !IsUpToDate(*link)) {
      return std::nullopt;
    }
    pushed.is_rejected = pushed.is_rejected || link->is_push_rejected();
    pushed.lives += link->pushed_life();
  }
  return pushed;
}

void ShardLinks::EndPush() {
  push_.reset();
  for (auto& [shard, link] : links_) {
    link->EndPush();
  }
}

void ShardLinks::BeginPull(
    uint64_t min_round, bool is_evaluation, TimePoint now, proto::Outbox* out) {
  for (auto& [shard, link] : links_) {
    link->BeginPull(min_round, is_evaluation, now, out);
  }
}

bool ShardLinks::are_pulls_held() const {
  return !are_pulls_done() && std::ranges::all_of(links_, [](const auto& entry) {
    return entry.second->is_pull_done() || entry.second->is_pull_held();
  });
}

bool ShardLinks::are_pulls_done() const {
  return std::ranges::all_of(links_, [this](const auto& entry) {
    return entry.second->is_pull_done() && IsUpToDate(*entry.second);
  });
}

bool ShardLinks::HasPulledBefore(uint64_t round) const {
  return std::ranges::any_of(links_, [round](const auto& entry) {
    return entry.second->is_pull_done() && entry.second->pulled_round() < round;
  });
}

bool ShardLinks::HavePulledStep(Step step) const {
  return std::ranges::all_of(
      links_, [step](const auto& entry) { return entry.second->pulled_step() >= step; });
}

uint64_t ShardLinks::bytes_pushed() const {
  proto::WorkerStats stats;
  AddTo(&stats);
  return stats.bytes_pushed;
}

void ShardLinks::AddTo(proto::WorkerStats* stats) const {
  stats->bytes_pushed += forgotten_pushed_;
  stats->bytes_pulled += forgotten_pulled_;
  for (const auto& [shard, link] : links_) {
    stats->bytes_pushed += link->bytes_pushed();
    stats->bytes_pulled += link->bytes_pulled();
    stats->retries += link->retries();
  }
}

void ShardLinks::AddWaits(
    const std::string& me,
    bool is_computing,
    TimePoint now,
    std::vector<proto::Wait>* waits) const {
  for (const auto& [shard, link] : links_) {
    const bool is_connected = link->peer() != proto::PeerId();
    if ((link->is_push_done() && link->is_pull_done()) || (is_connected && is_computing)) {
      continue;
    }
    const char* const what = !is_connected          ? "a connection"
                             : link->is_push_done() ? "an answer to a pull"
                                                    : "the acknowledgement of a push";
    waits->push_back(
        {me,
         fmt::format("shard {}", shard.value),
         what,
         Seconds(now - link->waiting_since()),
         session_.generation});
  }
}

}  // namespace ps::client
