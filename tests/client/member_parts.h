#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "ps/client/step_pipeline.h"
#include "tests/client/worker_core_fixture.h"

namespace ps::client {

/// The parts of a worker that is incarnation 4 of worker 1, for tests of one by itself. Two tensors
/// of 4 floats, one on shard 0 and one on shard 1; minibatches of 8.
struct MemberParts {
  explicit MemberParts(bool overlap = false) {
    session.worker = WorkerId(1);
    session.incarnation = Incarnation(4);
    session.minibatch = 8;
    session.settings.overlap = overlap;
    session.settings.timing = proto::Timing::FromMaxDetect(milliseconds(2400));
    coordinator.OnConnected(kCoordinator, 1, now, &out);
    proto::Placement placement;
    placement.version = 1;
    for (uint32_t tensor = 0; tensor < 2; ++tensor) {
      placement.chunks.push_back({MakeChunkKey(tensor, 0), 4, 0, ShardId(tensor)});
    }
    links.SetLayout(ChunkLayout::Make({4, 4}, placement).value());
    links.SetPlacement(1);
    EXPECT_TRUE(host.Prepare(links.layout(), 2).ok());
    leases.Begin();
    reports.Begin();
    times.Begin(now);
    links.Connect({{ShardId(0), "a", 1}, {ShardId(1), "b", 2}});
    for (const ShardId shard : {ShardId(0), ShardId(1)}) {
      EXPECT_TRUE(links.OnConnected(shard, PeerOf(shard), now, &out));
    }
    out.sent.clear();
  }

  static proto::PeerId PeerOf(ShardId shard) { return proto::PeerId(10 + shard.value); }

  proto::LeaseGrant Grant(
      uint64_t id,
      uint64_t begin,
      uint64_t end,
      proto::LeaseKind kind = proto::LeaseKind::kTrain) const {
    return {Incarnation(4), LeaseId(id), kind, 0, begin, end, 0, 0, proto::Mode::kAsync};
  }

  /// Answers the newest request to the shard with a value of its tensor, each element of it.
  std::vector<PullIntake::Fresh> AnswerPull(ShardId shard, float value) {
    values.assign(4, value);
    proto::PullReply reply;
    reply.chunks = {{MakeChunkKey(shard.value, 0), static_cast<Version>(value), 4, 0}};
    reply.chunk_total = 1;
    reply.placement = 1;
    reply.payload.parts.push_back(std::as_bytes(std::span(values)));
    ShardLink* const link = links.Of(PeerOf(shard));
    return link->OnPullReply(LastTo(shard), reply, now).value();
  }

  void AnswerPush(ShardId shard, Step step) {
    proto::PushReply reply;
    reply.step = step;
    reply.life = 5;
    reply.placement = 1;
    links.Of(PeerOf(shard))->OnPushReply(LastTo(shard), reply, now, &out);
  }

  uint64_t LastTo(ShardId shard) const {
    uint64_t id = 0;
    for (const RecordingOutbox::Sent& sent : out.sent) {
      id = sent.to == PeerOf(shard) ? sent.request_id : id;
    }
    return id;
  }

  TimePoint now{seconds(100)};
  RecordingOutbox out;
  FakeHost host;
  Random random{1};
  std::vector<float> values;
  Session session;
  CoordinatorLink coordinator{NullLogger()};
  ShardLinks links{session, host, random, NullLogger()};
  LeaseQueue leases{session, coordinator, random};
  ParameterGate parameters{session, host, links};
  StepReports reports{session, coordinator, random};
  WorkTimes times;
  StepPipeline steps{session, host, links, leases, parameters, reports, times, NullLogger()};
};

}  // namespace ps::client
