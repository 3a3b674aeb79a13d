#include "ps/server/pull_queue.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "ps/base/buffer.h"

namespace ps::server {
namespace {

// Waits are read by people, and a heartbeat has to fit into a frame, however many members there
// are.
constexpr size_t kWaitsMax = 64;
constexpr uint64_t kNamesPerWaitMax = 8;

}  // namespace

PullQueue::PullQueue(
    const Life& life,
    const ChunkStore& store,
    Roster& roster,
    const Rounds& rounds,
    proto::ShardStats& counters)
    : life_(life),
      store_(store),
      roster_(roster),
      rounds_(rounds),
      counters_(counters),
      held_values_(life, store) {
  counters_.staleness_histogram.assign(kStalenessBuckets, 0);
}

void PullQueue::OnPull(const Call& call, proto::PullRequest& pull) {
  if (const Status status = Take(call, pull); !status.ok()) {
    call.Refuse(status);
  }
}

Status PullQueue::Take(const Call& call, proto::PullRequest& pull) {
  PS_TRY(life_.CheckSetUp());
  PS_ASSIGN(const Member* const member, roster_.Admit(pull.worker, pull.incarnation));
  PS_TRY(CheckHeld(pull.held, pull.placement));
  if (rounds_.is_bsp() && pull.min_round > rounds_.newest() + 1) {
    return Status::InvalidArgument(fmt::format(
        "a pull waits for round {}, but round {} is the last committed one",
        pull.min_round,
        rounds_.newest()));
  }
  Pull taken = Pull::Of(call.peer, call.request_id, std::move(pull.held), pull.held_life);
  taken.min_round = pull.min_round;
  taken.is_evaluation = pull.is_evaluation;
  taken.encoding = pull.encoding;
  Start(*member, std::move(taken), call.now, call.out);
  return Status::Ok();
}

void PullQueue::OnModelPull(const Call& call, proto::PullRequest& pull) {
  Status status = life_.CheckSetUp();
  if (status.ok()) {
    status = CheckHeld(pull.held, store_.placement());
  }
  if (!status.ok()) {
    call.Refuse(status);
    return;
  }
  for (proto::ChunkVersion& chunk : pull.held) {
    chunk.version = std::numeric_limits<Version>::max();  // need not come, however new it is
  }
  model_answer_.reset();
  model_pull_ = Pull::Of(call.peer, call.request_id, std::move(pull.held), life_.number);
  ContinueModel(false, call.out);
}

bool PullQueue::Expect(Incarnation incarnation, uint64_t request_id) {
  uint64_t& newest = states_[incarnation].newest_id;
  if (request_id < newest) {
    return false;
  }
  newest = request_id;
  return true;
}

Status PullQueue::CheckHeld(
    const std::vector<proto::ChunkVersion>& held, uint64_t placement) const {
  for (const proto::ChunkVersion& chunk : held) {
    if (!store_.IndexOf(chunk.key) && !store_.MayHaveMoved(placement)) {
      return Status::InvalidArgument(fmt::format(
          "a pull holds chunk {}, which is not on shard {}", chunk.key.value, life_.shard.value));
    }
  }
  return Status::Ok();
}

void PullQueue::Start(const Member& member, Pull pull, TimePoint now, proto::Outbox* out) {
  auto& entry = *states_.try_emplace(member.incarnation).first;
  State& state = entry.second;
  if (pull.request_id < state.newest_id) {
    return;  // overtaken by a newer one on its way
  }
  if (state.answer && state.answer->peer == pull.peer &&
      state.answer->request_id == pull.request_id) {
    return;  // a repetition of what is being answered
  }
  EndAnswer(&entry);
  state.newest_id = pull.request_id;
  if (MayAnswer(member, pull)) {
    state.waiting.reset();
    BeginAnswer(member, pull, out);
    return;
  }
  // A repetition goes on waiting since when it began to.
  pull.since = state.waiting ? state.waiting->since : now;
  pull.generation = state.waiting ? state.waiting->generation : roster_.generation();
  state.waiting = std::move(pull);
}

/// The job is in bsp, and this shard has not heard of it: it was given up, and the worker has not
/// heard of that. It asks the shard's next process for the round.
bool PullQueue::IsOfAnUnknownRound(const Pull& pull) const {
  return !rounds_.is_bsp() && pull.min_round > rounds_.newest();
}

bool PullQueue::MayAnswer(const Member& member, const Pull& pull) const {
  if (IsOfAnUnknownRound(pull)) {
    return false;
  }
  switch (rounds_.mode().mode) {
    case proto::Mode::kAsync:
      return true;
    case proto::Mode::kSsp:
      return pull.is_evaluation || roster_.LeadOf(member) <= rounds_.mode().staleness_max;
    case proto::Mode::kBsp:
      return pull.min_round <= rounds_.newest() && !rounds_.is_committing();
  }
  return true;
}

/// An answer with the chunks that are newer than those held.
PullQueue::PullAnswer PullQueue::MakeAnswer(const Pull& pull) {
  held_.assign(store_.size(), std::nullopt);
  if (pull.held_life == life_.number) {
    for (const proto::ChunkVersion& chunk : pull.held) {
      if (const std::optional<size_t> index = store_.IndexOf(chunk.key); index) {
        held_[*index] = chunk.version;
      }
    }
  }
  PullAnswer answer;
  answer.peer = pull.peer;
  answer.request_id = pull.request_id;
  for (size_t index = 0; index < store_.size(); ++index) {
    if (!held_[index] || store_.chunks()[index].version > *held_[index]) {
      answer.chunks.push_back({static_cast<uint32_t>(index), held_[index].has_value()});
    }
  }
  answer.total = static_cast<uint32_t>(answer.chunks.size());
  return answer;
}

void PullQueue::BeginAnswer(const Member& member, const Pull& pull, proto::Outbox* out) {
  State& state = states_.at(member.incarnation);
  PullAnswer answer = MakeAnswer(pull);
  answer.incarnation = member.incarnation;
  answer.staleness_steps = roster_.LeadOf(member);
  if (!pull.is_evaluation) {
    answer.encoding = pull.encoding;
    const uint64_t bucket = std::min<uint64_t>(answer.staleness_steps, kStalenessBuckets - 1);
    ++counters_.staleness_histogram[bucket];
    state.read_at = {counters_.steps_applied, state.read_at[0]};
    state.reads = std::min<uint32_t>(state.reads + 1, 2);
  }
  // A worker's copy follows all that is sent to it, evaluations included.
  answer.is_followed =
      held_values_.Begin(answer.incarnation, answer.peer, {answer.encoding, pull.is_evaluation});
  const bool has_room = !out->IsBacklogged(answer.peer);  // else OnDrained begins to send it
  answering_.emplace(answer.peer, member.incarnation);
  state.answer = std::move(answer);
  if (has_room) {
    ContinueAnswer(member.incarnation, false, out);
  }
}

void PullQueue::ContinueAnswer(Incarnation incarnation, bool is_urgent, proto::Outbox* out) {
  auto& entry = *states_.find(incarnation);
  if ((is_urgent || !is_held_) && Send(&*entry.second.answer, is_urgent, out)) {
    EndAnswer(&entry);
  }
}

void PullQueue::Continue(proto::Outbox* out) {
  for (auto it = answering_.begin(); it != answering_.end() && !is_held_;) {
    const auto [peer, incarnation] = *it++;
    if (!out->IsBacklogged(peer)) {
      ContinueAnswer(incarnation, false, out);
    }
  }
}

void PullQueue::ContinueModel(bool is_urgent, proto::Outbox* out) {
  if (model_pull_ && !rounds_.is_committing()) {
    model_answer_ = MakeAnswer(*model_pull_);
    model_pull_.reset();
  }
  if (!model_answer_ || (!is_urgent && out->IsBacklogged(model_answer_->peer))) {
    return;
  }
  if (Send(&*model_answer_, is_urgent, out)) {
    model_answer_.reset();
  }
}

void PullQueue::FinishAnswers(proto::Outbox* out) {
  for (auto& [incarnation, state] : states_) {
    if (state.answer) {
      ContinueAnswer(incarnation, true, out);
    }
  }
  ContinueModel(true, out);
}

void PullQueue::OnDrained(proto::PeerId peer, proto::Outbox* out) {
  auto it = answering_.lower_bound({peer, Incarnation()});
  while (it != answering_.end() && it->first == peer) {
    ContinueAnswer((it++)->second, false, out);
  }
  if (model_answer_ && model_answer_->peer == peer) {
    ContinueModel(false, out);
  }
}

void PullQueue::EndAnswer(States::value_type* entry) {
  if (entry->second.answer) {
    answering_.erase({entry->second.answer->peer, entry->first});
    entry->second.answer.reset();
  }
}

bool PullQueue::Send(PullAnswer* answer, bool is_urgent, proto::Outbox* out) {
  do {
    SendFrame(answer, out);
    if (answer->next == answer->chunks.size()) {
      return true;
    }
  } while (is_urgent || !out->IsBacklogged(answer->peer));
  return false;
}

HeldValues::Form PullQueue::FormOf(
    const PullAnswer& answer, const Entry& entry, uint32_t part) const {
  if (!answer.is_followed) {
    // An average that nobody moves comes once, so its error would stay.
    const bool is_average = store_.chunks()[entry.chunk].rule == UpdateRule::kAverage;
    return {is_average ? codec::Encoding() : answer.encoding, 0};
  }
  return held_values_.FormOf(
      answer.incarnation, store_.chunks()[entry.chunk], part, entry.is_listed, answer.encoding);
}

/// What comes next of the answer, as much as fits into a frame and is of one encoding. Returns the
/// bytes that it takes.
uint64_t PullQueue::TakePieces(PullAnswer* answer, codec::Encoding* encoding) {
  pieces_.clear();
  uint64_t bytes = 0;
  while (answer->next < answer->chunks.size()) {
    const Entry& entry = answer->chunks[answer->next];
    const Chunk& chunk = store_.chunks()[entry.chunk];
    const auto [begin, count] = store_.RangeOf(chunk, answer->next_part);
    const HeldValues::Form form = FormOf(*answer, entry, answer->next_part);
    const uint64_t size = form.encoding.SizeOf(count);
    const bool has_room = bytes + size <= life_.settings.frame_bytes;
    if (!pieces_.empty() && (!has_room || form.encoding != *encoding)) {
      break;
    }
    *encoding = form.encoding;
    pieces_.push_back(
        {answer->next,
         answer->next_part,
         {chunk.key, chunk.version, count, begin, form.base},
         chunk.value.floats().subspan(begin, count)});
    bytes += size;
    if (++answer->next_part == chunk.part_count) {
      answer->next_part = 0;
      ++answer->next;
    }
  }
  return bytes;
}

/// The pieces as they leave, one behind the other. Returns how many there are: those before the
/// first one that can't leave in its form.
size_t PullQueue::EncodeFollowed(const PullAnswer& answer, uint64_t number, Buffer* bytes) {
  std::span<std::byte> rest = bytes->bytes();
  for (size_t i = 0; i < pieces_.size(); ++i) {
    const Piece& piece = pieces_[i];
    const Entry& entry = answer.chunks[piece.entry];
    const HeldValues::Form form = FormOf(answer, entry, piece.part);
    const uint64_t size = form.encoding.SizeOf(piece.values.size());
    if (!held_values_.Encode(
            answer.incarnation,
            store_.chunks()[entry.chunk],
            piece.part,
            form,
            number,
            rest.first(size))) {
      return i;
    }
    rest = rest.subspan(size);
  }
  return pieces_.size();
}

/// f32 values of a worker that is not followed stay where they are; others are encoded into memory
/// of the frame.
void PullQueue::SendFrame(PullAnswer* answer, proto::Outbox* out) {
  proto::PullReply reply;
  reply.chunk_total = answer->total;
  reply.staleness_steps = answer->staleness_steps;
  reply.life = life_.number;
  reply.placement = store_.placement();
  reply.encoding = answer->encoding;
  uint64_t bytes = TakePieces(answer, &reply.encoding);
  if (answer->is_followed) {
    reply.number = held_values_.NextFrame(answer->incarnation);
    auto buffer = std::make_shared<Buffer>(bytes);
    const size_t count = EncodeFollowed(*answer, reply.number, buffer.get());
    if (count < pieces_.size()) {
      answer->next = pieces_[count].entry;
      answer->next_part = pieces_[count].part;
      if (count == 0) {
        return;  // the next frame has it in another form
      }
      pieces_.resize(count);
      bytes = 0;
      for (const Piece& piece : pieces_) {
        bytes += reply.encoding.SizeOf(piece.values.size());
      }
    }
    reply.payload = proto::Payload::Own(std::move(buffer), bytes);
  } else if (reply.encoding.is_lossy()) {
    auto buffer = std::make_shared<Buffer>(bytes);
    std::span<std::byte> rest = buffer->bytes();
    for (const Piece& piece : pieces_) {
      const uint64_t size = reply.encoding.SizeOf(piece.values.size());
      codec::Encode(reply.encoding, piece.values, {}, rest.first(size));
      rest = rest.subspan(size);
    }
    reply.payload = proto::Payload::Own(std::move(buffer), bytes);
  } else {
    for (const Piece& piece : pieces_) {
      reply.payload.parts.push_back(std::as_bytes(piece.values));
    }
  }
  for (const Piece& piece : pieces_) {
    reply.chunks.push_back(piece.header);
  }
  counters_.bytes_sent += bytes;
  out->Send(answer->peer, answer->request_id, std::move(reply));
}

void PullQueue::Release(proto::Outbox* out) {
  for (auto& [incarnation, state] : states_) {
    const Member& member = *roster_.Find(incarnation);
    if (state.waiting && MayAnswer(member, *state.waiting)) {
      const Pull pull = std::move(*state.waiting);
      state.waiting.reset();
      BeginAnswer(member, pull, out);
    }
  }
  ContinueModel(false, out);
}

void PullQueue::OnPeerClosed(proto::PeerId peer) {
  held_values_.OnPeerClosed(peer);
  for (auto& entry : states_) {
    State& state = entry.second;
    if (state.waiting && state.waiting->peer == peer) {
      state.waiting.reset();  // asked for anew on the next connection
    }
    if (state.answer && state.answer->peer == peer) {
      EndAnswer(&entry);
    }
  }
}

void PullQueue::DropModelPull() {
  model_pull_.reset();
  model_answer_.reset();
}

std::optional<Pull> PullQueue::Forget(Incarnation incarnation) {
  held_values_.Forget(incarnation);
  const auto entry = states_.find(incarnation);
  if (entry == states_.end()) {
    return std::nullopt;
  }
  EndAnswer(&*entry);
  std::optional<Pull> waiting = std::move(entry->second.waiting);
  states_.erase(entry);
  return waiting;
}

bool PullQueue::PullAnswer::Reindex(const Reindexing& moved) {
  std::vector<Entry> left;
  size_t left_next = next;
  for (size_t i = 0; i < chunks.size(); ++i) {
    if (const std::optional<size_t> later = moved.later()[chunks[i].chunk]; later) {
      left.push_back({static_cast<uint32_t>(*later), chunks[i].is_listed});
    } else if (i >= next) {
      return false;
    } else {
      --left_next;
    }
  }
  chunks = std::move(left);
  next = left_next;
  return true;
}

void PullQueue::Reindex(const Reindexing& chunks) {
  held_values_.Reindex(chunks);
  model_answer_.reset();
  for (auto& entry : states_) {
    if (entry.second.answer && !entry.second.answer->Reindex(chunks)) {
      EndAnswer(&entry);
    }
  }
}

void PullQueue::Reset() {
  states_.clear();
  answering_.clear();
  held_values_.Reset();
  DropModelPull();
  is_held_ = false;
}

uint64_t PullQueue::MissedSteps(Incarnation incarnation, size_t answers_behind) const {
  const auto state = states_.find(incarnation);
  return state != states_.end() && state->second.reads > answers_behind
             ? counters_.steps_applied - state->second.read_at[answers_behind]
             : 0;
}

/// Whom the pull of `member` waits for, the first few by name.
std::string PullQueue::WaitsFor(const Member& member, const Pull& pull) const {
  if (rounds_.is_committing()) {
    return fmt::format("the update of round {}", rounds_.newest());
  }
  if (IsOfAnUnknownRound(pull)) {
    return "coordinator";
  }
  const bool is_bsp = rounds_.is_bsp();
  std::string names;
  uint64_t count = 0;
  for (const auto& [incarnation, other] : roster_.members()) {
    const bool holds_back =
        other.is_active && (is_bsp ? other.last_round < pull.min_round
                                   : other.clock + rounds_.mode().staleness_max < member.clock);
    if (!holds_back || ++count > kNamesPerWaitMax) {
      continue;
    }
    names += names.empty() ? "w" : ", w";
    names += is_bsp ? fmt::format("{}", other.worker.value)
                    : fmt::format("{} (clock {})", other.worker.value, other.clock);
  }
  if (count > kNamesPerWaitMax) {
    names += fmt::format(" and {} more", count - kNamesPerWaitMax);
  }
  // With no names, all that the round needs of this shard is here.
  return count == 0 ? "coordinator" : names;
}

std::vector<proto::Wait> PullQueue::Waits(TimePoint now) const {
  std::vector<proto::Wait> waits;
  for (const auto& [incarnation, state] : states_) {
    if (!state.waiting || waits.size() == kWaitsMax) {
      continue;
    }
    const Member& member = *roster_.Find(incarnation);
    const Pull& pull = *state.waiting;
    proto::Wait wait;
    wait.who = fmt::format("w{}", member.worker.value);
    wait.for_whom = WaitsFor(member, pull);
    wait.what = rounds_.is_bsp() || IsOfAnUnknownRound(pull)
                    ? fmt::format("round {} at shard {}", pull.min_round, life_.shard.value)
                    : fmt::format(
                          "staleness bound {} at shard {}",
                          rounds_.mode().staleness_max,
                          life_.shard.value);
    wait.since_s = Seconds(now - pull.since);
    wait.generation = pull.generation;
    waits.push_back(std::move(wait));
  }
  return waits;
}

}  // namespace ps::server
