#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "ps/proto/messages.h"
#include "ps/proto/outbox.h"
#include "ps/server/checkpoints/disk_work.h"
#include "ps/server/shard_core.h"
#include "tests/checkpoint/memory_storage.h"

namespace ps::server {

inline constexpr proto::PeerId kCoordinator{1};
inline constexpr ShardId kShard{3};
// The shard's chunks, of 2, 2 and 3 elements; kForeign is another shard's.
inline constexpr ChunkKey kFirst = MakeChunkKey(0, 0);
inline constexpr ChunkKey kSecond = MakeChunkKey(0, 1);
inline constexpr ChunkKey kThird = MakeChunkKey(1, 0);
inline constexpr ChunkKey kForeign = MakeChunkKey(2, 0);
// Another shard: the connections to it, and from it.
inline constexpr ShardId kOther{4};
inline constexpr proto::PeerId kOtherPeer{50};
inline constexpr proto::PeerId kGiver{51};

/// Where worker number `worker` is connected.
inline constexpr proto::PeerId PeerOf(uint32_t worker) {
  return proto::PeerId(100 + worker);
}

/// Without members.
proto::ShardSetup RigSetup();

/// Keeps what the shard sends, with borrowed payloads copied as a transport would.
class SentMessages final : public proto::Outbox {
 public:
  struct Sent {
    proto::PeerId to;
    uint64_t request_id = 0;
    proto::Message message;
    std::vector<float> values;  // of a PullReply's payload, or its bytes if they are no f32
  };

  void Send(proto::PeerId to, uint64_t request_id, proto::Message message) override;

  void Close(proto::PeerId peer) override { closed.insert(peer); }

  void Flush(proto::PeerId /*peer*/) override { on_flush(); }

  bool IsBacklogged(proto::PeerId peer) const override { return peer == slow && has_frame; }

  std::vector<Sent> all;
  std::set<proto::PeerId> closed;
  proto::PeerId slow;  // takes one frame of an answer at a time; nobody at first
  bool has_frame = false;
  std::function<void()> on_flush = [] {};
};

/// A disk whose requests wait until the test has them done.
class RigDisk final : public ShardDisk {
 public:
  using Request = std::variant<ReleaseRequest, ChunkWrite, PartWrite, RestoreRequest>;

  explicit RigDisk(checkpoint::Storage* storage) : work(storage, kShard) {}

  void Use(DiskPlace place) override { work.Use(std::move(place)); }

  void Release(ReleaseRequest what) override { requests.emplace_back(std::move(what)); }

  void Write(ChunkWrite write) override { requests.emplace_back(std::move(write)); }

  void Commit(PartWrite write) override { requests.emplace_back(std::move(write)); }

  void Restore(RestoreRequest what) override { requests.emplace_back(std::move(what)); }

  DiskWork work;
  std::deque<Request> requests;
};

/// Keeps what it was asked for.
class RigDialer final : public ShardDialer {
 public:
  void Dial(const proto::ShardAddress& to) override { dialled.push_back(to); }

  std::vector<proto::ShardAddress> dialled;
};

/// Answers of one kind, with where they went.
template <typename T>
struct Answer {
  proto::PeerId to;
  uint64_t request_id = 0;
  T message;
  std::vector<float> values;
};

/// A shard with its coordinator and workers played by the test. Every element of its parameters
/// begins at 1; the optimizer is plain sgd with learning rate 1 and reference minibatch 1, so that
/// a push of one sample subtracts its gradient.
class ShardRig {
 public:
  explicit ShardRig(proto::Mode mode_in = proto::Mode::kAsync);
  ShardRig(const ShardRig&) = delete;
  ShardRig& operator=(const ShardRig&) = delete;

  /// Change `settings` and `setup` before this.
  void SetUp();

  ShardSettings settings;
  proto::ModeChoice mode;  // of memberships
  proto::ShardSetup setup;
  TimePoint now{std::chrono::seconds(100)};
  SentMessages sent;
  checkpoint::MemoryStorage storage;
  RigDisk disk{&storage};
  RigDialer dialer;
  ShardCore core;

  /// Members 1..count, incarnation i of worker i - 1, all active; a new generation each time.
  proto::Membership MembersUpTo(uint32_t count);
  void Deliver(proto::PeerId from, proto::Message message, uint64_t request_id = 7);
  void Tick(Duration later);
  /// Does what the disk was asked for and hands the answers over; at most `count` requests.
  void RunDisk(size_t count = SIZE_MAX);
  /// What the newest request to the disk is to restore; it has to be a restore.
  std::vector<ChunkKey> KeysAskedFor() const;
  /// Ticks as the shell does until `duration` is over.
  void Wait(Duration duration);

  /// One frame with elements [begin, begin + count) of a chunk, each equal to `gradient`.
  proto::PushRequest Part(
      uint64_t incarnation, Step step, ChunkKey key, uint32_t begin, uint32_t count, float gradient)
      const;
  /// One frame with every element of `chunks` equal to `gradient`, sent by worker incarnation - 1.
  proto::PushRequest Frame(
      uint64_t incarnation, Step step, const std::vector<ChunkKey>& chunks, float gradient) const;
  /// A whole step in one frame.
  proto::PushRequest WholeStep(uint64_t incarnation, Step step, float gradient) const;
  void Push(const proto::PushRequest& push, uint64_t request_id = 7);
  proto::PullRequest PullAll(uint64_t incarnation) const;
  void Pull(const proto::PullRequest& pull, uint64_t request_id = 8);

  /// Takes the answers of one kind that came since the last look; all others stay.
  template <typename T>
  std::vector<Answer<T>> Take() {
    std::vector<Answer<T>> taken;
    std::vector<SentMessages::Sent> rest;
    for (SentMessages::Sent& s : sent.all) {
      if (T* message = std::get_if<T>(&s.message)) {
        taken.push_back({s.to, s.request_id, std::move(*message), std::move(s.values)});
      } else {
        rest.push_back(std::move(s));
      }
    }
    sent.all = std::move(rest);
    return taken;
  }

  /// The only PushReply since the last look.
  proto::PushReply OnlyPushReply();
  /// The only Refusal since the last look.
  proto::Refusal OnlyRefusal();
  /// The first elements of the three chunks.
  std::vector<float> Values() const;
  std::vector<Version> Versions() const;

 private:
  Generation generation_;
};

}  // namespace ps::server
