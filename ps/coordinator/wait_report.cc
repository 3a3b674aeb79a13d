#include "ps/coordinator/wait_report.h"

#include <fmt/core.h>

#include <utility>

namespace ps::coordinator {

std::string Name(WorkerId seat) {
  return fmt::format("w{}", seat.value);
}

std::string Name(ShardId shard) {
  return fmt::format("shard {}", shard.value);
}

void NameList::Add(const std::string& name) {
  if (++count_ <= kShownMax) {
    text_ += (text_.empty() ? "" : ", ") + name;
  }
}

std::string NameList::text() const {
  return count_ <= kShownMax ? text_ : fmt::format("{} and {} more", text_, count_ - kShownMax);
}

std::vector<proto::Wait> WaitReport::At(TimePoint now) const {
  std::vector<proto::Wait> waits;
  AddOwnWaits(now, &waits);
  AddMemberWaits(now, &waits);
  return waits;
}

/// "shard 1, shard 3": those that have not acknowledged `generation`.
std::string WaitReport::ShardsBehind(Generation generation) const {
  NameList list;
  for (const Shard& shard : job_->shards.all()) {
    if (job_->membership.AcknowledgedBy(shard.shard) < generation) {
      list.Add(Name(shard.shard));
    }
  }
  return list.text();
}

void WaitReport::AddOwnWaits(TimePoint now, std::vector<proto::Wait>* waits) const {
  const Membership& membership = job_->membership;
  const auto add = [&](std::string for_whom,
                       std::string what,
                       TimePoint since,
                       Generation generation) {
    waits->push_back(
        {"coordinator", std::move(for_whom), std::move(what), Seconds(now - since), generation});
  };
  if (!job_->shards.are_all_ready() && !job_->state.park.is_on) {
    add(job_->shards.Missing(now), "the servers", job_->started_at, Generation());
  } else if (membership.members().empty() && job_->state.phase <= JobPhase::kTraining) {
    add("any worker", "a worker that joins", job_->no_worker_since, membership.generation());
  }
  for (const Shard& shard : job_->shards.all()) {
    if (shard.SilenceAt(now) > job_->timing.detect) {
      add(Name(shard.shard), "a heartbeat", shard.last_heard, membership.generation());
    }
  }
  for (const auto& [incarnation, departure] : membership.departures()) {
    if (departure.record->is_resolved) {
      continue;
    }
    NameList list;
    for (const Shard& shard : job_->shards.all()) {
      if (!departure.record->answers.contains(shard.shard)) {
        list.Add(Name(shard.shard));
      }
    }
    add(list.text(),
        fmt::format(
            "the last step of {} (incarnation {})",
            Name(departure.record->member.seat),
            incarnation.value),
        departure.since,
        departure.record->generation);
  }
  if (!job_->rounds.is_commit_acknowledged()) {
    NameList list;
    for (const Shard& shard : job_->shards.all()) {
      if (!job_->rounds.HasAcknowledged(shard.shard)) {
        list.Add(Name(shard.shard));
      }
    }
    add(list.text(),
        fmt::format("the commit of round {}", job_->rounds.committed()),
        job_->round_since,
        membership.generation());
  }
}

std::string WaitReport::WhoIsWorking() const {
  NameList working;
  for (const auto& [incarnation, member] : job_->membership.members()) {
    const auto entry = job_->rounds.entries().find(incarnation);
    const bool is_entered = entry != job_->rounds.entries().end() && !entry->second.has_contributed;
    if (job_->evaluations.Find(member.record->last_grant.lease) != nullptr || is_entered ||
        leases_->IsAwaited(member)) {
      working.Add(Name(member.record->seat));
    }
  }
  return working.text();
}

void WaitReport::AddLeaseWait(
    const Member& member,
    const std::string& working,
    TimePoint now,
    std::vector<proto::Wait>* waits) const {
  const MemberRecord& record = *member.record;
  proto::Wait wait;
  wait.who = Name(record.seat);
  wait.since_s = Seconds(now - member.wants_since);
  wait.generation = member.wants_generation;
  if (job_->is_ssp() && record.is_active && !job_->membership.IsAcknowledged(record.activated)) {
    wait.for_whom = ShardsBehind(record.activated);
    wait.what = fmt::format("membership {}", record.activated.value);
  } else {
    wait.for_whom = working.empty() ? "coordinator" : working;
    wait.what = "a lease";
    if (job_->SitsOut(record.incarnation)) {
      wait.for_whom = "coordinator";
      wait.what += " (it sits out of the rounds)";
    } else if (job_->state.pause.is_on) {
      wait.what += " (the job is paused)";
    } else if (job_->state.modes.is_holding) {
      wait.what +=
          fmt::format(" (the mode changes to {})", proto::ModeText(job_->state.modes.wanted));
    } else if (job_->evaluations.is_pending()) {
      wait.what += " (evaluation under way)";
    } else if (job_->is_bsp()) {
      wait.what += fmt::format(" (round {})", job_->rounds.open_round());
    } else if (!leases_->HasTrainingWork()) {
      wait.what += " (all samples are leased)";
    }
  }
  waits->push_back(std::move(wait));
}

void WaitReport::AddMemberWaits(TimePoint now, std::vector<proto::Wait>* waits) const {
  const std::string working = WhoIsWorking();
  for (const auto& [incarnation, member] : job_->membership.members()) {
    const MemberRecord& record = *member.record;
    if (!record.is_admitted) {
      waits->push_back(
          {Name(record.seat),
           ShardsBehind(record.joined),
           fmt::format("membership {}", record.joined.value),
           Seconds(now - member.since),
           record.joined});
    } else if (member.wants_lease) {
      AddLeaseWait(member, working, now, waits);
    }
    for (proto::Wait wait : member.waits) {
      wait.since_s += Seconds(now - member.last_heartbeat);
      // The coordinator's own view of it, above, says more.
      if (!(member.wants_lease && wait.for_whom == "coordinator")) {
        waits->push_back(std::move(wait));
      }
    }
  }
  for (const Shard& shard : job_->shards.all()) {
    for (proto::Wait wait : shard.waits) {
      wait.since_s += Seconds(now - shard.waits_at);
      waits->push_back(std::move(wait));
    }
  }
}

}  // namespace ps::coordinator
