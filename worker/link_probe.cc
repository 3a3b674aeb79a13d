#include "worker/link_probe.h"

#include <algorithm>
#include <utility>

namespace ps::worker {
namespace {

/// A worker has two steps under way at most; what is older was given up.
constexpr size_t kOpenMax = 4;
/// Exchanges and round trips that are kept, the newest.
constexpr size_t kKept = 256;
/// Frames of one exchange that are kept; a model with more is not timed.
constexpr size_t kFramesMax = 65536;
/// The bytes behind fewer than these arrive in a time that says more of the clock than of the link.
constexpr double kTellingBytes = 65536;
/// Cores count their requests from 1.
constexpr uint64_t kOwnRequest = uint64_t{1} << 63;

double MedianOf(std::vector<double> values) {
  if (values.empty()) {
    return 0;
  }
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace

void LinkProbe::Send(proto::PeerId to, uint64_t request_id, proto::Message message) {
  if (const auto* push = std::get_if<proto::PushRequest>(&message)) {
    OnPush(to, request_id, *push);
  } else if (std::holds_alternative<proto::PullRequest>(message)) {
    for (auto& [step, exchange] : open_) {
      exchange.is_clean = false;
    }
  }
  out_->Send(to, request_id, std::move(message));
}

void LinkProbe::OnPush(proto::PeerId to, uint64_t request_id, const proto::PushRequest& push) {
  Exchange& exchange = open_[push.step];
  const auto [it, is_new] = exchange.parts.try_emplace(to);
  Part& part = it->second;
  if (is_new) {
    part.request_id = request_id;
  }
  exchange.is_clean = exchange.is_clean && part.request_id == request_id &&
                      exchange.timing.frames.size() < kFramesMax;
  if (exchange.is_clean) {
    exchange.timing.frames.push_back({time_->Now(), static_cast<double>(push.payload.size())});
    for (const proto::ChunkRef& chunk : push.chunks) {
      part.elements[chunk.key] += chunk.element_count;
    }
  }
  part.header.worker = push.worker;
  part.header.incarnation = push.incarnation;
  part.header.step = push.step;
  part.header.lease = push.lease;
  part.header.round = push.round;
  part.header.samples = push.samples;
  part.header.chunk_count = push.chunk_count;
  part.header.placement = push.placement;
  while (open_.size() > kOpenMax) {
    open_.erase(open_.begin());
  }
}

bool LinkProbe::OnMessage(proto::PeerId peer, uint64_t request_id, const proto::Message& message) {
  if ((request_id & kOwnRequest) != 0) {
    if (peer == asked_ && request_id == (kOwnRequest | asked_count_)) {
      round_trips_s_.push_back(Seconds(time_->Now() - asked_at_));
      if (round_trips_s_.size() > kKept) {
        round_trips_s_.pop_front();
      }
    }
    return true;
  }
  if (const auto* push = std::get_if<proto::PushReply>(&message)) {
    OnAcknowledged(peer, request_id, *push);
  } else if (const auto* pull = std::get_if<proto::PullReply>(&message)) {
    OnValues(peer, request_id, *pull);
  }
  return false;
}

void LinkProbe::OnAcknowledged(
    proto::PeerId peer, uint64_t request_id, const proto::PushReply& reply) {
  const auto open = open_.find(reply.step);
  if (open == open_.end()) {
    return;
  }
  Exchange& exchange = open->second;
  const auto part = exchange.parts.find(peer);
  if (part == exchange.parts.end() || part->second.request_id != request_id) {
    exchange.is_clean = false;
    return;
  }
  const TimePoint now = time_->Now();
  const bool is_first = std::ranges::none_of(
      exchange.parts, [](const auto& entry) { return entry.second.is_acknowledged; });
  part->second.is_acknowledged = true;
  exchange.timing.first_ack = is_first ? now : exchange.timing.first_ack;
  exchange.timing.last_ack = now;
  FinishIfOver(reply.step);
}

void LinkProbe::OnValues(proto::PeerId peer, uint64_t request_id, const proto::PullReply& reply) {
  for (auto& [step, exchange] : open_) {
    const auto found = exchange.parts.find(peer);
    if (found == exchange.parts.end() || found->second.request_id != request_id) {
      continue;
    }
    Part& part = found->second;
    exchange.timing.pulled_bytes += static_cast<double>(reply.payload.size());
    exchange.timing.last_values = time_->Now();
    for (const proto::PullReply::Chunk& chunk : reply.chunks) {
      part.elements_seen += chunk.element_count;
      if (chunk.element_begin == 0) {
        ++part.chunks_begun;
        const auto pushed = part.elements.find(chunk.key);
        part.elements_awaited += pushed != part.elements.end() ? pushed->second : 0;
      }
    }
    part.is_pulled =
        part.chunks_begun >= reply.chunk_total && part.elements_seen >= part.elements_awaited;
    FinishIfOver(step);
    return;
  }
}

void LinkProbe::FinishIfOver(Step step) {
  Exchange& exchange = open_[step];
  for (const auto& [peer, part] : exchange.parts) {
    if (!part.is_acknowledged || !part.is_pulled) {
      return;
    }
  }
  const proto::PeerId peer = exchange.parts.begin()->first;
  const proto::PushRequest header = exchange.parts.begin()->second.header;
  if (exchange.is_clean && left_out_ == 0) {
    over_.push_back(std::move(exchange.timing));
    if (over_.size() > kKept) {
      over_.pop_front();
    }
  }
  left_out_ -= left_out_ > 0 ? 1 : 0;
  open_.erase(open_.begin(), open_.upper_bound(step));
  Ask(peer, header);
}

/// A frame without chunks is refused at once, whatever step it is of.
void LinkProbe::Ask(proto::PeerId peer, const proto::PushRequest& header) {
  asked_ = peer;
  asked_at_ = time_->Now();
  out_->Send(peer, kOwnRequest | ++asked_count_, header);
}

LinkProbe::Figures LinkProbe::figures() const {
  Figures figures;
  if (round_trips_s_.empty()) {
    return figures;
  }
  figures.round_trip_s = *std::ranges::min_element(round_trips_s_);
  std::vector<double> push;
  std::vector<double> pull;
  for (const Timing& exchange : over_) {
    double rate = 0;
    double behind = 0;
    for (auto frame = exchange.frames.rbegin(); frame != exchange.frames.rend(); ++frame) {
      behind += frame->bytes;
      const double s = Seconds(exchange.last_ack - frame->at) - figures.round_trip_s;
      const bool is_all = frame + 1 == exchange.frames.rend();
      if (s > 0 && (behind >= kTellingBytes || is_all)) {
        rate = std::max(rate, behind / s);
      }
    }
    const double pull_s = Seconds(exchange.last_values - exchange.first_ack);
    if (rate > 0 && pull_s > 0) {
      push.push_back(rate);
      pull.push_back(exchange.pulled_bytes / pull_s);
    }
  }
  if (push.empty()) {
    return {};
  }
  figures.exchanges = push.size();
  figures.push_bytes_per_s = MedianOf(std::move(push));
  figures.pull_bytes_per_s = MedianOf(std::move(pull));
  return figures;
}

}  // namespace ps::worker
