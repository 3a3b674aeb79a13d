#include "ps/coordinator/state/shard_table.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "ps/coordinator/state/placement.h"

namespace ps::coordinator {

ShardTable::ShardTable(
    std::vector<ShardRecord>* records,
    uint32_t shards_per_server,
    const proto::Placement& placement,
    TouchedRows* touched)
    : records_(records),
      touched_(touched),
      shards_per_server_(shards_per_server),
      shards_(records->size()) {
  PS_CHECK(!shards_.empty() && shards_per_server > 0);
  for (uint32_t i = 0; i < shards_.size(); ++i) {
    shards_[i].shard = ShardId(i);
    shards_[i].record = &(*records)[i];
    ready_ += shards_[i].record->is_ready ? 1 : 0;
  }
  NotePlacement(placement);
}

void ShardTable::NotePlacement(const proto::Placement& placement) {
  for (Shard& shard : shards_) {
    shard.has_chunks = false;
  }
  for (const proto::ChunkAssignment& chunk : placement.chunks) {
    shards_[chunk.shard.value].has_chunks = true;
  }
  lives_ = 0;
  for (const Shard& shard : shards_) {
    lives_ += shard.has_chunks ? shard.record->life : 0;
  }
  largest_bytes_ = LargestBytes(placement);
}

ShardRecord& ShardTable::Edit(const Shard& shard) {
  touched_->Mark(RowKind::kShard, shard.shard.value);
  return (*records_)[shard.shard.value];
}

Shard* ShardTable::Find(ShardId shard) {
  return shard.value < shards_.size() ? &shards_[shard.value] : nullptr;
}

Shard* ShardTable::FindPeer(proto::PeerId peer) {
  const auto it = peers_.find(peer);
  return it == peers_.end() ? nullptr : Find(it->second);
}

void ShardTable::Connect(Shard* shard, proto::PeerId peer) {
  peers_.erase(shard->peer);
  shard->peer = peer;
  if (peer != proto::PeerId()) {
    peers_[peer] = shard->shard;
  }
}

void ShardTable::MarkReady(Shard* shard) {
  ready_ += shard->record->is_ready ? 0 : 1;
  Edit(*shard).is_ready = true;
}

void ShardTable::MarkServed(TimePoint now) {
  for (Shard& shard : shards_) {
    if (shard.has_chunks && shard.record->is_registered && !shard.record->is_ready) {
      MarkReady(&shard);
      shard.ready_at = now;
    }
  }
}

void ShardTable::Await(uint32_t server, LaunchId launch) {
  for (uint32_t i = 0; i < shards_per_server_; ++i) {
    Edit(shards_[server * shards_per_server_ + i]).launch = launch;
  }
}

bool ShardTable::HasPlace(uint32_t server, LaunchId launch) const {
  return launch != LaunchId() && std::ranges::any_of(shards_, [&](const Shard& shard) {
           return ServerOf(shard.shard) == server && shard.record->launch == launch;
         });
}

void ShardTable::LoseProcess(Shard* shard, TimePoint now) {
  ShardRecord* const record = &Edit(*shard);
  shard->lost_at = now;
  record->is_registered = false;
  record->pid = 0;
  record->launch = LaunchId();
  Connect(shard, proto::PeerId());
}

LaunchId ShardTable::SuccessorOf(uint32_t server) const {
  return server < server_count() ? shards_[server * shards_per_server_].record->successor
                                 : LaunchId();
}

void ShardTable::SetSuccessor(uint32_t server, LaunchId launch) {
  for (uint32_t i = 0; i < shards_per_server_; ++i) {
    Edit(shards_[server * shards_per_server_ + i]).successor = launch;
  }
}

void ShardTable::RememberLosses(const ShardTable& before, TimePoint now) {
  starts_ = before.starts_;
  for (size_t i = 0; i < shards_.size(); ++i) {
    if (i < before.shards_.size()) {
      shards_[i].ready_at = before.shards_[i].ready_at;
    }
    shards_[i].lost_at = now;
  }
}

void ShardTable::SetStartDue(uint32_t server, Duration due) {
  for (uint32_t i = 0; i < shards_per_server_; ++i) {
    const Shard& shard = shards_[server * shards_per_server_ + i];
    if (shard.record->start_due != due) {
      Edit(shard).start_due = due;
    }
  }
}

TimePoint ShardTable::PlanStart(uint32_t server, std::string why, TimePoint now, TimePoint begin) {
  const TimePoint at = starts_.Plan(server, std::move(why), now);
  SetStartDue(server, at - begin);
  return at;
}

void ShardTable::CancelStart(uint32_t server) {
  starts_.Cancel(server);
  SetStartDue(server, Duration());
}

std::vector<uint32_t> ShardTable::TakeDueStarts(TimePoint now, Random* random) {
  std::vector<uint32_t> due = starts_.TakeDue(now, random);
  for (const uint32_t server : due) {
    SetStartDue(server, Duration());
  }
  return due;
}

void ShardTable::RecallStarts(TimePoint now, TimePoint begin, Random* random) {
  for (uint32_t server = 0; server < server_count(); ++server) {
    const ShardRecord& record = *shards_[server * shards_per_server_].record;
    const bool is_planned = record.start_due > Duration();
    if (is_planned || record.restarts > 0) {
      starts_.Recall(
          server,
          record.restarts,
          is_planned ? std::optional(begin + record.start_due) : std::nullopt,
          now,
          random);
    }
  }
}

void ShardTable::BeginLife(Shard* shard, proto::RestoreOrder restore) {
  ShardRecord* const record = &Edit(*shard);
  ready_ -= record->is_ready ? 1 : 0;
  ++record->life;
  lives_ += shard->has_chunks ? 1 : 0;
  record->restore = restore;
  record->is_ready = false;
  shard->setup_timer.Stop();
  shard->membership_timer.Stop();
  shard->commit_timer.Stop();
}

std::string ShardTable::Missing(TimePoint now) const {
  std::string text;
  for (const Shard& shard : shards_) {
    if (shard.record->is_ready) {
      continue;
    }
    std::string what = shard.record->is_registered ? "not set up yet" : "not registered";
    if (const auto* const planned = starts_.FindPlanned(ServerOf(shard.shard)); planned) {
      what = fmt::format(
          "started again in {:.0f} s, since {}",
          std::ceil(Seconds(planned->at - std::min(now, planned->at))),
          planned->why);
    }
    text += fmt::format(
        "{}shard {} of server {} ({})",
        text.empty() ? "" : ", ",
        shard.shard.value,
        ServerOf(shard.shard),
        what);
  }
  return text;
}

proto::ShardAddress ShardTable::AddressOf(const Shard& shard) {
  return {shard.shard, shard.record->host, shard.record->port};
}

std::vector<proto::ShardAddress> ShardTable::Addresses() const {
  std::vector<proto::ShardAddress> addresses;
  addresses.reserve(shards_.size());
  for (const Shard& shard : shards_) {
    if (shard.has_chunks || shard.record->is_registered) {
      addresses.push_back(AddressOf(shard));
    }
  }
  return addresses;
}

}  // namespace ps::coordinator
