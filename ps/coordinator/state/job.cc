#include "ps/coordinator/state/job.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "ps/coordinator/state/mode_state.h"
#include "ps/coordinator/state/placement.h"
#include "ps/proto/job/traffic_price.h"

namespace ps::coordinator {
namespace {

/// The times of the state in the journal are behind by at most this.
constexpr Duration kTimesEvery = std::chrono::milliseconds(100);

/// States of older programs lack what steps have: it is what the config says.
JobState WithSteps(JobState state, const proto::JobConfig& config) {
  if (!state.steps) {
    state.steps = FirstSteps(config);
  }
  return state;
}

}  // namespace

JobEdits::JobEdits(JobState* state)
    : phase(state->phase),
      outcome(state->outcome),
      stop_reason(state->stop_reason),
      leave_reason(state->leave_reason),
      is_told_shards(state->is_told_shards),
      epochs_finished(state->epochs_finished),
      data(state->data),
      counters(state->counters),
      last_launch(state->last_launch),
      model(state->model),
      checkpoints(state->checkpoints),
      wanted(state->wanted),
      handovers(state->handovers),
      servers(state->servers),
      pause(state->pause),
      modes(state->modes),
      steps(*state->steps),
      park(state->park),
      finish(state->finish) {}

Job::Job(
    CoordinatorOptions options_in,
    JobState state_in,
    proto::FleetActions* fleet_in,
    const Logger* log_in)
    : state_(WithSteps(std::move(state_in), options_in.config)),
      options(std::move(options_in)),
      timing(proto::Timing::Of(options.config)),
      fleet(fleet_in),
      log(log_in),
      state(state_),
      edit(&state_),
      events(&state_.events, log, &touched_),
      ledger(&state_.ledger, options.train_samples, options.config.train.epochs, &touched_),
      evaluations(&state_.evaluations, &touched_, EvaluationKind::Of(options.config)),
      rounds(&state_.rounds, &touched_),
      membership(&state_.membership, static_cast<uint32_t>(state_.shards.size()), &touched_),
      faults(options.config.faults, &state_.faults_fired),
      seats(options.config, faults.faults(), &state_.seats, &touched_),
      places(options.config, &state_.places, &events),
      shards(&state_.shards, options.config.servers.shards_per_server, state.placement, &touched_),
      meter(&state_.meter, options.config.train.minibatch),
      divergence(options.classes),
      random(options.config.train.seed) {
  if (options.journal != nullptr) {
    touched_.TurnOn();
  }
  for (const auto& [incarnation, member] : membership.members()) {
    const MemberRecord& record = *member.record;
    seats.Take(record.seat, record.launch);
    if (record.step_seconds > 0) {
      speed.NoteStep(incarnation, 0, record.step_seconds);
    } else if (record.last_grant.lease != LeaseId()) {
      speed.NoteWarmingUp(incarnation);
    }
  }
}

void Job::Reply(const Call& call, proto::Message message) const {
  coordinator::Reply(call, std::move(message));
}

void Job::Refuse(const Call& call, StatusCode code, const std::string& text, Step step) const {
  coordinator::Refuse(call, code, text, step);
}

void Job::ClosePeer(proto::PeerId peer, const Call& call) {
  if (peers.Remove(peer)) {
    call.out->Close(peer);
  }
}

bool Job::HasRole(const Call& call, proto::Role role) {
  return coordinator::HasRole(&peers, call, role);
}

void Job::RefuseConnection(const Call& call, Incarnation incarnation) {
  Refuse(
      call,
      StatusCode::kUnavailable,
      fmt::format(
          "this connection is not incarnation {}'s; connect again as that one", incarnation.value));
  ClosePeer(call.from, call);
}

Member* Job::MemberOf(const Call& call, Incarnation incarnation) {
  if (!HasRole(call, proto::Role::kWorker)) {
    return nullptr;
  }
  Member* const member = membership.Find(incarnation);
  if (member == nullptr || !member->record->is_admitted) {
    Refuse(
        call,
        StatusCode::kStale,
        fmt::format("incarnation {} takes no part (any more)", incarnation.value));
    return nullptr;
  }
  if (peers.At(call.from).incarnation != incarnation) {
    RefuseConnection(call, incarnation);
    return nullptr;
  }
  if (member->peer != call.from) {
    return nullptr;
  }
  member->last_heard = call.now;
  if (!member->record->is_heard) {
    membership.Edit(*member).is_heard = true;
  }
  return member;
}

uint64_t Job::LargestBytes() const {
  const std::optional<proto::ChunkMove>& move = state.servers.chunks;
  if (!move) {
    return shards.largest_bytes();
  }
  const std::set<ChunkKey> keys(move->keys.begin(), move->keys.end());
  uint64_t bytes = 0;
  for (const proto::ChunkAssignment& chunk : state.placement.chunks) {
    const bool is_there = chunk.shard == move->to || keys.contains(chunk.key);
    bytes += is_there ? chunk.element_count * sizeof(float) : 0;
  }
  return std::max(bytes, shards.largest_bytes());
}

uint64_t Job::WorkersToExpect() const {
  uint64_t wanted = 0;
  for (const uint32_t count : state.wanted) {
    wanted += count;
  }
  return std::max<uint64_t>(wanted, membership.members().size());  // some were not asked for
}

uint64_t Job::RoundRoom(uint64_t shard_bytes) const {
  const uint64_t queue_bytes = uint64_t{options.config.servers.queue_mib} << 20U;
  return shard_bytes > 0 ? queue_bytes / shard_bytes : kSeatsMax;
}

std::vector<GroupSeating> Job::Seatings() const {
  std::vector<GroupSeating> seatings(options.config.workers.size());
  std::vector<bool> is_taken(seats.size());
  for (const auto& [incarnation, member] : membership.members()) {
    const MemberRecord& record = *member.record;
    const std::optional<uint32_t> group = seats.GroupPlaceOf(record.seat);
    is_taken[record.seat.value] = true;
    if (group && !record.is_draining && !record.is_notified) {
      seatings[*group].present.push_back(record.seat);
    }
  }
  for (uint32_t i = 0; i < seats.size(); ++i) {
    const WorkerId seat(i);
    const std::optional<uint32_t> group = seats.GroupPlaceOf(seat);
    if (!group || is_taken[i]) {
      continue;
    }
    GroupSeating& seating = seatings[*group];
    if (!seats.IsExpected(seat)) {
      seating.vacant.push_back(seat);
    } else if (!state.kills.contains(seat)) {
      seating.coming.push_back(seat);
    }
  }
  for (GroupSeating& seating : seatings) {
    std::sort(seating.present.begin(), seating.present.end());
  }
  return seatings;
}

std::vector<proto::FleetRow> Job::FleetRows(TimePoint now) const {
  const std::vector<GroupSeating> seatings = Seatings();
  std::vector<proto::FleetRow> rows;
  for (size_t i = 0; i < seatings.size(); ++i) {
    const proto::WorkerGroup& group = options.config.workers[i];
    auto row =
        std::find_if(rows.begin(), rows.end(), [&](const auto& r) { return r.type == group.type; });
    row = row == rows.end() ? rows.insert(row, {group.type, 0, 0}) : row;
    row->wanted += state.wanted[i];
    row->present += static_cast<uint32_t>(seatings[i].present.size());
    const size_t there = seatings[i].size();
    if (!is_working() || !options.config.fleet.replace || there >= state.wanted[i]) {
      continue;
    }
    if (std::optional<PlaceWait> wait = places.WaitOf(group, now)) {
      row->waiting += state.wanted[i] - static_cast<uint32_t>(there);
      row->wait_s = Seconds(wait->wait);
      row->why = std::move(wait->why);
    }
  }
  return rows;
}

LaunchId Job::NextLaunch() {
  return LaunchId(++edit.last_launch.value);
}

Duration Job::StartServer(uint32_t server, const std::string& why, TimePoint now) {
  fleet->KillServer(server, LaunchId());
  const Duration wait = shards.PlanStart(server, why, now, started_at) - now;
  StartDueServers(now);
  return wait;
}

void Job::StartDueServers(TimePoint now) {
  for (const uint32_t server : shards.TakeDueStarts(now, &random)) {
    const LaunchId launch = NextLaunch();
    shards.Await(server, launch);
    fleet->StartServer(server, launch);
  }
}

void Job::StartWorker(WorkerId seat, TimePoint now) {
  Launch(seat, places.Take(seat, seats.GroupOf(seat), now));
}

void Job::StartWorkerIn(WorkerId seat, const PlaceKey& place, TimePoint now) {
  places.Take(seat, place, now);
  Launch(seat, place.second);
}

void Job::Launch(WorkerId seat, const std::string& zone) {
  proto::WorkerGroup group = seats.GroupOf(seat);
  group.zones.clear();
  if (!zone.empty()) {
    group.zones.push_back(zone);
  }
  const LaunchId launch = NextLaunch();
  seats.Expect(seat, launch);
  fleet->StartWorker(seat, launch, group);
}

bool Job::GiveUpReturn(WorkerId seat, const std::string& reason) {
  const bool was_there = seats.IsReturning(seat);
  seats.StopExpecting(seat);
  const GoneWorker* const gone = was_there ? membership.NoteNeverBack(seat, reason) : nullptr;
  if (gone == nullptr) {
    return false;
  }
  const bool is_lost = gone->kind == LeaveKind::kLost;
  ++(is_lost ? edit.counters.revocations_unnoticed : edit.counters.revocations_noticed);
  events.Tell(
      is_lost ? proto::EventCode::kWorkerLost : proto::EventCode::kWorkerLeft,
      {{"worker", seat.value},
       {"incarnation", gone->member.incarnation.value},
       {"reason", reason},
       {"steps", gone->member.reported}});
  return true;
}

proto::ServersStatus Job::ServersNow() const {
  const proto::ServersState& servers = state.servers;
  return {
      shards.server_count(),
      servers.wanted,
      servers.is_spreading,
      servers.moves,
      servers.trouble,
      servers.shares,
      PinnedParts(servers.pins, state.placement, options.tensors),
      servers.pins.size()};
}

const proto::SitOutRecord* Job::SitOutOf(Incarnation incarnation) const {
  const auto& records = state.modes.sit_outs;
  const auto record =
      std::ranges::lower_bound(records, incarnation, {}, &proto::SitOutRecord::incarnation);
  const bool is_there = record != records.end() && record->incarnation == incarnation;
  return is_there && record->is_out ? &*record : nullptr;
}

proto::ModesStatus Job::ModesNow() const {
  const proto::ModesState& modes = state.modes;
  return {modes.in_force, modes.wanted, modes.is_holding, modes.switches};
}

proto::StepsStatus Job::StepsNow() const {
  const proto::StepsState& steps = *state.steps;
  return {steps.in_force, steps.wanted, steps.chosen, steps.changes, steps.since_samples};
}

double Job::UsdPerHour() const {
  const proto::JobConfig& config = options.config;
  double usd = state.park.is_on ? 0 : double{config.servers.usd_per_hour} * shards.server_count();
  const bool is_free = std::ranges::all_of(
      config.workers, [](const proto::WorkerGroup& group) { return group.usd_per_hour == 0; });
  if (is_free && faults.faults().empty()) {
    return usd;
  }
  std::set<WorkerId> held(seats.expected().begin(), seats.expected().end());
  for (const auto& [incarnation, member] : membership.members()) {
    held.insert(member.record->seat);
  }
  for (const WorkerId seat : held) {
    usd += seats.GroupOf(seat).usd_per_hour;
  }
  return usd;
}

void Job::NoteStats(Member* member, const proto::WorkerStats& stats, TimePoint now) {
  membership.NoteStats(*member, stats);
  if (proto::HasPrices(options.config.traffic)) {
    CountTraffic(member, now);
  }
}

/// What is counted is in the member's row, and what it has cost in that of the totals. Both are
/// written with this event, so whoever goes on from them counts no byte twice and misses none.
void Job::CountTraffic(Member* member, TimePoint now) {
  // More than any network moves between two heartbeats: whoever says so is wrong.
  constexpr uint64_t kBytesMax = uint64_t{1} << 50;
  const proto::WorkerStats& stats = member->record->stats;
  const uint64_t pushed = std::max(stats.bytes_pushed, member->record->pushed_counted);
  const uint64_t pulled = std::max(stats.bytes_pulled, member->record->pulled_counted);
  const uint64_t pushed_more = pushed - member->record->pushed_counted;
  const uint64_t pulled_more = pulled - member->record->pulled_counted;
  if (std::max(pushed_more, pulled_more) == 0 || std::max(pushed_more, pulled_more) > kBytesMax) {
    return;
  }
  MemberRecord& record = membership.Edit(*member);
  if (record.zone.empty()) {
    record.zone = fleet->ZoneOf(record.seat);
  }
  const proto::TrafficPrice price = proto::PriceOf(options.config.traffic, record.zone);
  proto::TrafficRecord& sum = state_.traffic;
  sum.pushed_bytes += price.push_usd_per_gb > 0 ? pushed_more : 0;
  sum.pulled_bytes += price.pull_usd_per_gb > 0 ? pulled_more : 0;
  sum.usd += price.Usd(pushed_more, pulled_more);
  record.pushed_counted = pushed;
  record.pulled_counted = pulled;
  traffic.Note(sum.usd, now);
}

proto::KillRecord& Job::EditKill(WorkerId seat) {
  touched_.Mark(RowKind::kKill, seat.value);
  return state_.kills[seat];
}

void Job::DropKill(WorkerId seat) {
  touched_.Mark(RowKind::kKill, seat.value);
  state_.kills.erase(seat);
}

void Job::SetTimes(TimePoint now, JobState* saved) const {
  saved->age = now - started_at;
  saved->clock = now.time_since_epoch();
  saved->usd = cost.usd();
  if (training_began) {
    saved->trained = training_ended.value_or(now) - *training_began;
  }
  saved->is_trained = training_ended.has_value();
}

void Job::FinishChunkMove() {
  const proto::ChunkMove move = *std::exchange(state_.servers.chunks, std::nullopt);
  touched_.Mark(RowKind::kPlacement);
  state_.placement.version = move.version;
  const std::set<ChunkKey> moved(move.keys.begin(), move.keys.end());
  for (proto::ChunkAssignment& chunk : state_.placement.chunks) {
    if (moved.contains(chunk.key)) {
      chunk.shard = move.to;
    }
  }
  state_.servers.settled_by = state_.checkpoints.next;
  shards.NotePlacement(state_.placement);
}

void Job::BeginLife(Shard* shard, proto::RestoreOrder restore) {
  shards.BeginLife(shard, restore);
  if (!shard->has_chunks) {
    return;
  }
  for (const auto& [incarnation, member] : membership.members()) {
    ++membership.Edit(member).lives_missed;
  }
  for (const auto& [incarnation, departure] : membership.departures()) {
    ++membership.Edit(departure).member.lives_missed;
  }
}

proto::ShardAddresses Job::WhereAllIs() const {
  proto::ShardAddresses all;
  all.shards = shards.Addresses();
  all.version = state.placement.version;
  for (const proto::ChunkAssignment& chunk : state.placement.chunks) {
    all.places.push_back({chunk.key, chunk.shard});
  }
  return all;
}

JobState Job::StateAt(TimePoint now) const {
  JobState saved = state;
  SetTimes(now, &saved);
  return saved;
}

bool Job::NoteTimes(TimePoint now) {
  const bool is_near = std::chrono::abs(now - started_at - state_.age) < kTimesEvery &&
                       (state_.trained.has_value() || !training_began.has_value()) &&
                       training_ended.has_value() == state_.is_trained;
  if (!is_near) {
    SetTimes(now, &state_);
  }
  return !is_near;
}

void Job::RememberPolicy(proto::PolicyRecord record) {
  state_.policy = std::move(record);
  touched_.Mark(RowKind::kPolicy);
}

RowChanges Job::TakeRows(TimePoint now, bool is_all) {
  RowChanges rows;
  rows.is_all = is_all || totals_.empty();  // the first time
  const bool has_times = NoteTimes(now);
  std::vector<RowId> touched = touched_.Take();
  if (rows.is_all) {
    touched = proto::ListRows(state_);
  } else if (has_times) {
    touched.push_back({RowKind::kTimes});
  }
  for (const RowId id : touched) {
    rows.changes.push_back({id, proto::EncodeRow(state_, id)});
  }
  std::vector<std::byte> totals = proto::EncodeRow(state_, {RowKind::kTotals}).value();
  if (totals != totals_) {
    totals_ = totals;
    rows.changes.push_back({{RowKind::kTotals}, std::move(totals)});
  }
  return rows;
}

void Job::Resume(TimePoint now) {
  started_at = now - state.age;
  places.SetBegin(started_at);
  // Machines have cost while no coordinator was there, too, but for longer no process is left. A
  // journal of another boot is refused, and what a checkpoint has is taken over without a clock.
  const bool is_known = state.clock > Duration::zero();
  const TimePoint saved_at = is_known ? TimePoint(state.clock) : now;
  cost.Resume(state.usd, std::clamp(saved_at, now - timing.orphan, now));
  traffic.Note(state.traffic.usd, now);
  no_worker_since = now;
  round_since = now;
  if (state.trained) {
    training_began = now - *state.trained;
  }
  if (state.is_trained) {
    training_ended = now;
  }
  for (const WorkerId seat : seats.expected()) {
    places.Adopt(seat, seats.GroupOf(seat));
  }
  for (auto& [incarnation, member] : membership.members()) {
    places.Adopt(member.record->seat, seats.GroupOf(member.record->seat));
    member.since = now;
    member.last_heard = now;
    member.last_heartbeat = now;
    member.last_progress = now;
    member.last_step = now;
  }
  for (auto& [incarnation, departure] : membership.departures()) {
    departure.since = now;
  }
  for (Shard& shard : shards.all()) {
    shard.last_heard = now;
    shard.ready_at = now;  // if it is ready; for how long it has worked is not known
    shard.lost_at = training_began && !shard.record->is_ready ? now : TimePoint();
  }
}

}  // namespace ps::coordinator
