#include "worker/shell/connections.h"

#include <algorithm>
#include <utility>

namespace ps::worker {

Connections::Connections(
    net::Loop* loop, net::EndpointOptions options, const Logger* log, net::EndpointHandler* handler)
    : loop_(loop),
      options_(std::move(options)),
      log_(log),
      handler_(handler),
      endpoint_(loop, options_, log, handler) {}

void Connections::SetThreads(size_t threads) {
  constexpr size_t kThreadsMax = 64;
  threads_ = options_.emulated_link ? 1 : std::clamp<size_t>(threads, 1, kThreadsMax);
}

void Connections::EndThreads() {
  first_number_ += links_.size();
  links_.clear();
}

Connections::Attempt Connections::ConnectCoordinator(
    const std::string& host,
    uint32_t port,
    proto::Hello hello,
    net::Endpoint::ConnectCallback done,
    net::RetryPolicy retry) {
  return Connect(0, host, port, std::move(hello), std::move(done), std::move(retry));
}

Connections::Attempt Connections::ConnectShard(
    const proto::ShardAddress& address,
    proto::Hello hello,
    net::Endpoint::ConnectCallback done,
    net::RetryPolicy retry) {
  const size_t thread = address.shard.value % threads_;
  return Connect(
      thread, address.host, address.port, std::move(hello), std::move(done), std::move(retry));
}

Connections::Attempt Connections::Connect(
    size_t thread,
    const std::string& host,
    uint32_t port,
    proto::Hello hello,
    net::Endpoint::ConnectCallback done,
    net::RetryPolicy retry) {
  if (thread == 0) {
    return {0, endpoint_.Connect(host, port, std::move(hello), std::move(done), retry)};
  }
  return {
      thread,
      Link(thread)->Connect(host, port, std::move(hello), std::move(done), std::move(retry))};
}

net::LinkThread* Connections::Link(size_t thread) {
  if (links_.size() < thread) {
    links_.resize(thread);
  }
  std::unique_ptr<net::LinkThread>& link = links_[thread - 1];
  if (link == nullptr) {
    net::EndpointOptions options = options_;
    options.seed += thread;
    link = std::make_unique<net::LinkThread>(
        first_number_ + thread - 1, loop_, std::move(options), log_, handler_);
  }
  return link.get();
}

net::LinkThread* Connections::LinkOf(proto::PeerId peer) const {
  const uint64_t number = net::LinkThread::NumberOf(peer);
  const bool is_here = number >= first_number_ && number - first_number_ < links_.size();
  return is_here ? links_[number - first_number_].get() : nullptr;
}

void Connections::Cancel(const Attempt& attempt) {
  if (attempt.thread == 0) {
    endpoint_.CancelConnect(attempt.connect);
  } else if (attempt.thread <= links_.size() && links_[attempt.thread - 1] != nullptr) {
    links_[attempt.thread - 1]->CancelConnect(attempt.connect);
  }
}

void Connections::SetQueueBytesMax(uint64_t bytes) {
  options_.queue_bytes_max = bytes;
  endpoint_.SetQueueBytesMax(bytes);
  for (const auto& link : links_) {
    if (link != nullptr) {
      link->SetQueueBytesMax(bytes);
    }
  }
}

void Connections::CloseAll(const std::function<void()>& done) {
  auto left = std::make_shared<size_t>(1);
  const auto one_done = [left, done] {
    if (--*left == 0) {
      done();
    }
  };
  for (const auto& link : links_) {
    if (link != nullptr) {
      ++*left;
      link->CloseAll(one_done);
    }
  }
  endpoint_.CloseAll(one_done);
}

void Connections::Send(proto::PeerId to, uint64_t request_id, proto::Message message) {
  if (net::LinkThread* const link = LinkOf(to)) {
    link->Send(to, request_id, std::move(message));
  } else {
    endpoint_.Send(to, request_id, std::move(message));
  }
}

bool Connections::IsBacklogged(proto::PeerId peer) const {
  const net::LinkThread* const link = LinkOf(peer);
  return link != nullptr ? link->IsBacklogged(peer) : endpoint_.IsBacklogged(peer);
}

void Connections::Flush(proto::PeerId peer) {
  if (net::LinkThread* const link = LinkOf(peer)) {
    link->Flush(peer);
  } else {
    endpoint_.Flush(peer);
  }
}

void Connections::Close(proto::PeerId peer) {
  if (net::LinkThread* const link = LinkOf(peer)) {
    link->Close(peer);
  } else {
    endpoint_.Close(peer);
  }
}

}  // namespace ps::worker
