#include "tests/server/shard_rig.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>

namespace ps::server {
namespace {

TensorSpec Ones(const char* name, int64_t elements) {
  TensorSpec spec;
  spec.name = name;
  spec.shape = {elements};
  spec.init_scale = 1;
  return spec;
}

uint32_t ElementsOf(ChunkKey key) {
  return key == kForeign ? 5 : key == kThird ? 3 : 2;
}

}  // namespace

proto::ShardSetup RigSetup() {
  proto::ShardSetup setup;
  setup.tensors = {Ones("a", 4), Ones("b", 3), Ones("c", 5)};
  setup.placement.chunks = {
      {kFirst, 2, 0, kShard},
      {kSecond, 2, 2, kShard},
      {kThird, 3, 0, kShard},
      {kForeign, 5, 0, ShardId(0)}};
  setup.total_samples = 1000;
  return setup;
}

void SentMessages::Send(proto::PeerId to, uint64_t request_id, proto::Message message) {
  std::vector<float> values;
  if (auto* reply = std::get_if<proto::PullReply>(&message)) {
    for (const auto& part : reply->payload.parts) {
      const size_t old = values.size();
      values.resize(old + (part.size() + sizeof(float) - 1) / sizeof(float));
      std::memcpy(values.data() + old, part.data(), part.size());
    }
    reply->payload.parts.clear();
    has_frame = has_frame || to == slow;
  }
  all.push_back({to, request_id, std::move(message), std::move(values)});
}

ShardRig::ShardRig(proto::Mode mode_in)
    : core(
          {kShard, "host", 4711, 99, 0, LaunchId(12)},
          [this](const std::string&) { return settings; },
          &disk,
          &dialer,
          &NullLogger()) {
  setup = RigSetup();
  settings.optimizer.lr = 1;
  mode.mode = mode_in;
  setup.membership = MembersUpTo(3);
}

void ShardRig::SetUp() {
  core.OnCoordinatorConnected(kCoordinator, 1, now, &sent);
  Deliver(kCoordinator, setup);
  ASSERT_TRUE(core.is_set_up());
  sent.all.clear();
}

proto::Membership ShardRig::MembersUpTo(uint32_t count) {
  proto::Membership membership;
  generation_ = Generation(generation_.value + 1);
  membership.generation = generation_;
  membership.mode = mode;
  membership.incarnation_max = Incarnation(count);
  for (uint32_t i = 1; i <= count; ++i) {
    membership.members.push_back({WorkerId(i - 1), Incarnation(i), true});
  }
  return membership;
}

void ShardRig::Deliver(proto::PeerId from, proto::Message message, uint64_t request_id) {
  core.OnMessage(from, request_id, std::move(message), now, &sent);
}

void ShardRig::RunDisk(size_t count) {
  for (; count > 0 && !disk.requests.empty(); --count) {
    const RigDisk::Request request = std::move(disk.requests.front());
    disk.requests.pop_front();
    if (const auto* given_up = std::get_if<ReleaseRequest>(&request)) {
      disk.work.Do(*given_up);
    } else if (const auto* chunk = std::get_if<ChunkWrite>(&request)) {
      core.OnChunkWritten(disk.work.Do(*chunk), &sent);
    } else if (const auto* part = std::get_if<PartWrite>(&request)) {
      core.OnPartWritten(disk.work.Do(*part), &sent);
    } else {
      core.OnRestored(disk.work.Do(std::get<RestoreRequest>(request)), now, &sent);
    }
  }
}

std::vector<ChunkKey> ShardRig::KeysAskedFor() const {
  const auto* const request =
      disk.requests.empty() ? nullptr : std::get_if<RestoreRequest>(&disk.requests.back());
  EXPECT_NE(request, nullptr) << "nothing is to be restored";
  return request == nullptr ? std::vector<ChunkKey>() : request->keys;
}

void ShardRig::Tick(Duration later) {
  now += later;
  core.OnTick(now, &sent);
}

void ShardRig::Wait(Duration duration) {
  for (const TimePoint end = now + duration; now < end;) {
    Tick(std::min(end - now, core.timing().tick));
  }
}

proto::PushRequest ShardRig::Frame(
    uint64_t incarnation, Step step, const std::vector<ChunkKey>& chunks, float gradient) const {
  proto::PushRequest push;
  push.worker = WorkerId(static_cast<uint32_t>(incarnation - 1));
  push.incarnation = Incarnation(incarnation);
  push.step = step;
  push.lease = LeaseId(5);
  push.held_life = setup.life;
  push.samples = 1;
  push.chunk_count = 3;
  uint32_t elements = 0;
  for (const ChunkKey key : chunks) {
    push.chunks.push_back({key, ElementsOf(key)});
    elements += ElementsOf(key);
  }
  auto buffer = std::make_shared<Buffer>(elements * sizeof(float));
  for (float& value : buffer->floats()) {
    value = gradient;
  }
  push.payload = proto::Payload::Own(buffer, buffer->size());
  return push;
}

proto::PushRequest ShardRig::Part(
    uint64_t incarnation, Step step, ChunkKey key, uint32_t begin, uint32_t count, float gradient)
    const {
  proto::PushRequest push = Frame(incarnation, step, {}, 0);
  push.chunks = {{key, count, begin}};
  auto buffer = std::make_shared<Buffer>(count * sizeof(float));
  std::fill(buffer->floats().begin(), buffer->floats().end(), gradient);
  push.payload = proto::Payload::Own(buffer, buffer->size());
  return push;
}

proto::PushRequest ShardRig::WholeStep(uint64_t incarnation, Step step, float gradient) const {
  return Frame(incarnation, step, {kFirst, kSecond, kThird}, gradient);
}

void ShardRig::Push(const proto::PushRequest& push, uint64_t request_id) {
  Deliver(PeerOf(push.worker.value), push, request_id);
}

proto::PullRequest ShardRig::PullAll(uint64_t incarnation) const {
  proto::PullRequest pull;
  pull.worker = WorkerId(static_cast<uint32_t>(incarnation - 1));
  pull.incarnation = Incarnation(incarnation);
  pull.held_life = setup.life;
  return pull;
}

void ShardRig::Pull(const proto::PullRequest& pull, uint64_t request_id) {
  Deliver(PeerOf(pull.worker.value), pull, request_id);
}

proto::PushReply ShardRig::OnlyPushReply() {
  const auto replies = Take<proto::PushReply>();
  EXPECT_EQ(replies.size(), 1U);
  return replies.empty() ? proto::PushReply() : replies.front().message;
}

proto::Refusal ShardRig::OnlyRefusal() {
  const auto refusals = Take<proto::Refusal>();
  EXPECT_EQ(refusals.size(), 1U);
  return refusals.empty() ? proto::Refusal{StatusCode::kOk, "", 0, 0} : refusals.front().message;
}

std::vector<float> ShardRig::Values() const {
  return {
      core.ValuesOf(kFirst).front(), core.ValuesOf(kSecond).front(), core.ValuesOf(kThird).front()};
}

std::vector<Version> ShardRig::Versions() const {
  return {core.VersionOf(kFirst), core.VersionOf(kSecond), core.VersionOf(kThird)};
}

}  // namespace ps::server
