#include "ps/coordinator/servers/move_desk.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "ps/coordinator/state/placement.h"
#include "ps/proto/move_limits.h"

namespace ps::coordinator {
namespace {

/// Parameters that move at a time: steps that need them wait for so much to be sent.
constexpr uint64_t kBytesAtATime = uint64_t{16} << 20;

/// For so many workers, and for twice as many as there are, a move leaves room in its offer: they
/// can join while it is under way.
constexpr uint64_t kMembersMin = 1024;

/// How the trouble ends that a move waits for.
constexpr std::string_view kStuckRemedy =
    "; they go on when there are fewer workers, or in another mode (psctl scale, psctl mode)";

/// How many chunks the offer of one move can name.
uint64_t KeysAtATime(const Membership& membership) {
  const uint64_t present = membership.members().size() + membership.departures().size();
  const uint64_t expected = std::clamp<uint64_t>(2 * present, kMembersMin, kSeatsMax);
  return proto::OfferKeysMax(std::max(present, expected));
}

}  // namespace

/// A checkpoint that is due comes first: at once or, in bsp, with the commit of the open round.
/// Nothing sets off while a round is being committed, or once somebody has contributed to the open
/// one: the others are about to push, and would wait for the chunks.
bool MoveDesk::MayBegin(const Call& call) const {
  const bool is_checkpoint_near =
      checkpoints_->IsDue(call.now) && (!job_->is_bsp() || !job_->rounds.is_empty());
  return job_->state.phase == JobPhase::kTraining && !job_->state.servers.chunks &&
         !job_->state.modes.is_holding && job_->state.handovers.empty() &&
         job_->shards.are_all_ready() && !checkpoints_->is_open() && !is_checkpoint_near &&
         job_->rounds.is_commit_acknowledged() && !job_->rounds.has_contributions();
}

/// Parameters that a shard may have: under bsp it keeps a gradient of everybody for them.
uint64_t MoveDesk::RoomOfShard() const {
  if (!job_->needs_round_room()) {
    return std::numeric_limits<uint64_t>::max();
  }
  const uint64_t present = job_->membership.members().size() + job_->membership.departures().size();
  const uint64_t workers = std::max<uint64_t>({present, job_->WorkersToExpect(), 1});
  return (uint64_t{job_->options.config.servers.queue_mib} << 20U) / workers;
}

/// The first chunks that are not where they are to be and that have room there. Without keys: none
/// has.
std::optional<proto::ChunkMove> MoveDesk::NextMove() const {
  const proto::Placement& present = job_->state.placement;
  std::map<ShardId, uint64_t> bytes_of = BytesByShard(present);
  const uint64_t room = RoomOfShard();
  const uint64_t keys_max = KeysAtATime(job_->membership);
  std::optional<proto::ChunkMove> move;
  uint64_t bytes = 0;
  for (size_t i = 0; i < present.chunks.size(); ++i) {
    const proto::ChunkAssignment& chunk = present.chunks[i];
    const ShardId to = target_.chunks[i].shard;
    if (chunk.shard == to) {
      continue;
    }
    if (!move || move->keys.empty()) {
      move = proto::ChunkMove{present.version + 1, chunk.shard, to, {}};
    }
    const uint64_t size = uint64_t{chunk.element_count} * sizeof(float);
    const bool is_first = move->keys.empty();
    const bool is_of_move = chunk.shard == move->from && to == move->to;
    const bool is_enough = bytes + size > kBytesAtATime || move->keys.size() >= keys_max;
    if (bytes_of[to] + size > room || (!is_first && (!is_of_move || is_enough))) {
      continue;
    }
    move->keys.push_back(chunk.key);
    bytes += size;
    bytes_of[to] += size;
  }
  return move;
}

bool MoveDesk::Spread(const Wish& wish, const Call& call) {
  if (job_->state.servers.chunks) {
    return false;
  }
  if (wish_ != wish) {
    wish_ = wish;
    target_ = PlaceAgain(job_->state.placement, wish.shares, wish.pinned);
  }
  std::optional<proto::ChunkMove> move = NextMove();
  is_stuck_ = move && move->keys.empty();
  SayStuck(is_stuck_ ? std::optional(move->to) : std::nullopt);
  if (!move) {
    return true;
  }
  if (!is_stuck_ && MayBegin(call) && CanAsk(*move)) {
    job_->edit.servers.chunks = std::move(move);
    timer_.Start(call.now, &job_->random);
    Ask(call);
  }
  return false;
}

/// Once, until they go on. More workers than were wanted may have joined since the move was asked
/// for.
void MoveDesk::SayStuck(const std::optional<ShardId>& full) {
  const std::string& trouble = job_->state.servers.trouble;
  if (!full) {
    if (trouble.ends_with(kStuckRemedy)) {
      job_->edit.servers.trouble.clear();
    }
    return;
  }
  std::string text = fmt::format(
      "server {} has no room for more chunks: under bsp it keeps a gradient of each worker "
      "(servers.queue_mib){}",
      job_->shards.ServerOf(*full),
      kStuckRemedy);
  if (trouble != text) {
    job_->events.Tell(proto::EventCode::kChunksWait, {{"why", text}});
    job_->edit.servers.trouble = std::move(text);
  }
}

/// Both are there to be asked: after others have joined, all shards connect again.
bool MoveDesk::CanAsk(const proto::ChunkMove& move) const {
  return job_->shards.Find(move.from)->peer != proto::PeerId() &&
         job_->shards.Find(move.to)->record->is_registered;
}

void MoveDesk::Ask(const Call& call) const {
  const proto::ChunkMove& move = *job_->state.servers.chunks;
  if (!CanAsk(move)) {
    return;
  }
  const Shard* const from = job_->shards.Find(move.from);
  const Shard* const to = job_->shards.Find(move.to);
  const proto::ShardRecord& record = *to->record;
  call.out->Send(
      from->peer,
      0,
      proto::GiveChunks{
          move.version, {to->shard, record.host, record.port}, record.life, move.keys});
}

void MoveDesk::OnTick(const Call& call) {
  if (job_->state.servers.chunks && (!timer_.is_armed() || timer_.IsDue(call.now))) {
    Ask(call);
    timer_.Again(call.now, &job_->random);
  }
}

void MoveDesk::On(const Call& call, const proto::ChunksGiven& message) {
  if (!job_->HasRole(call, proto::Role::kShard)) {
    return;
  }
  const Shard* const shard = job_->shards.FindPeer(call.from);
  const std::optional<proto::ChunkMove>& move = job_->state.servers.chunks;
  if (shard == nullptr || shard->shard != message.shard || !move || move->from != shard->shard ||
      move->version != message.version) {
    return;  // a repetition
  }
  proto::ShardAddresses addresses;
  addresses.shards.push_back(ShardTable::AddressOf(*job_->shards.Find(move->to)));
  addresses.base = move->version - 1;
  addresses.version = move->version;
  for (const ChunkKey key : move->keys) {
    addresses.places.push_back({key, move->to});
  }
  job_->events.Tell(
      proto::EventCode::kChunksMoved,
      {{"placement", move->version},
       {"chunks", move->keys.size()},
       {"from", move->from.value},
       {"to", move->to.value}});
  job_->FinishChunkMove();
  timer_.Stop();
  for (const auto& [incarnation, member] : job_->membership.members()) {
    if (member.peer != proto::PeerId()) {
      call.out->Send(member.peer, 0, addresses);
    }
  }
}

void MoveDesk::OnMemberHeartbeat(const Call& call, uint64_t known) const {
  if (known < job_->state.placement.version) {
    call.out->Send(call.from, 0, job_->WhereAllIs());
  }
}

}  // namespace ps::coordinator
