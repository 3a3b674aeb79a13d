#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "ps/base/time.h"
#include "ps/proto/messages.h"
#include "ps/proto/outbox.h"

namespace ps::worker {

/// Times a worker's exchanges with its servers: stands between its core and the network, passes on
/// everything as it is, and notes when frames leave and when answers come.
///
/// An exchange is a push of one step to all shards and the values that follow. The acknowledgement
/// of bytes that left as frames at a_k comes at max over k of a_k + S_k / rate + round trip, with
/// S_k the bytes of frame k and of those behind it. So each frame gives a rate that the link has at
/// least, and the largest of them is the rate of a link that was busy from there on. Values come
/// back to back behind the acknowledgement. The work of the servers is in these rates.
///
/// The round trip is that of a question of the probe's own, asked when an exchange is over and the
/// link is quiet: a push without chunks, which a shard refuses, so that it can change nothing.
/// Thread: one at a time.
class LinkProbe final : public proto::Outbox {
 public:
  /// `out` and `time` outlive it. The first `left_out` exchanges do not count.
  LinkProbe(proto::Outbox* out, const TimeSource* time, uint64_t left_out)
      : out_(out), time_(time), left_out_(left_out) {}

  // proto::Outbox.
  void Send(proto::PeerId to, uint64_t request_id, proto::Message message) override;

  bool IsBacklogged(proto::PeerId peer) const override { return out_->IsBacklogged(peer); }

  void Flush(proto::PeerId peer) override { out_->Flush(peer); }

  void Close(proto::PeerId peer) override { out_->Close(peer); }

  /// True: it answers the probe's own question, and is for nobody else.
  bool OnMessage(proto::PeerId peer, uint64_t request_id, const proto::Message& message);

  struct Figures {
    uint64_t exchanges = 0;  // 0: nothing was measured, and the rest is 0
    double push_bytes_per_s = 0;
    double pull_bytes_per_s = 0;
    double round_trip_s = 0;
  };

  /// From the newest exchanges: the medians of the rates, and the shortest round trip, since
  /// whatever else a machine does makes it longer.
  Figures figures() const;

 private:
  struct Frame {
    TimePoint at{};
    double bytes = 0;
  };

  /// What figures are made of.
  struct Timing {
    std::vector<Frame> frames;
    double pulled_bytes = 0;
    TimePoint first_ack{};
    TimePoint last_ack{};
    TimePoint last_values{};
  };

  /// One shard's part of an exchange.
  struct Part {
    uint64_t request_id = 0;
    proto::PushRequest header;  // without chunks and payload
    std::map<ChunkKey, uint64_t> elements;
    bool is_acknowledged = false;
    bool is_pulled = false;
    uint64_t chunks_begun = 0;  // of the answer
    uint64_t elements_awaited = 0;
    uint64_t elements_seen = 0;
  };

  struct Exchange {
    std::map<proto::PeerId, Part> parts;
    Timing timing;
    bool is_clean = true;  // nothing was repeated or asked for besides
  };

  void OnPush(proto::PeerId to, uint64_t request_id, const proto::PushRequest& push);
  void OnAcknowledged(proto::PeerId peer, uint64_t request_id, const proto::PushReply& reply);
  void OnValues(proto::PeerId peer, uint64_t request_id, const proto::PullReply& reply);
  void FinishIfOver(Step step);
  void Ask(proto::PeerId peer, const proto::PushRequest& header);

  proto::Outbox* const out_;
  const TimeSource* const time_;
  uint64_t left_out_;
  std::map<Step, Exchange> open_;
  std::deque<Timing> over_;
  // The probe's question.
  uint64_t asked_count_ = 0;
  proto::PeerId asked_;
  TimePoint asked_at_{};
  std::deque<double> round_trips_s_;
};

}  // namespace ps::worker
