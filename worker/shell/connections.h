#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ps/base/logger.h"
#include "ps/net/endpoint.h"
#include "ps/net/link_thread.h"
#include "ps/net/loop.h"
#include "ps/proto/outbox.h"

namespace ps::worker {

/// A worker's connections: to the coordinator on its loop's own thread, to shards on that one too,
/// or spread over some more. All of them are told of on the loop. Thread: the loop's.
class Connections final : public proto::Outbox {
 public:
  /// A call of Connect.
  struct Attempt {
    size_t thread = 0;
    net::ConnectId connect;
  };

  /// All pointers outlive it.
  Connections(
      net::Loop* loop,
      net::EndpointOptions options,
      const Logger* log,
      net::EndpointHandler* handler);

  /// Shards that are connected from now on have so many threads, the loop's among them. With an
  /// emulated link, which all connections share, there is that one alone.
  void SetThreads(size_t threads);

  /// As Endpoint::Connect.
  Attempt ConnectCoordinator(
      const std::string& host,
      uint32_t port,
      proto::Hello hello,
      net::Endpoint::ConnectCallback done,
      net::RetryPolicy retry);
  Attempt ConnectShard(
      const proto::ShardAddress& address,
      proto::Hello hello,
      net::Endpoint::ConnectCallback done,
      net::RetryPolicy retry);
  void Cancel(const Attempt& attempt);

  /// Ends the threads, whose connections are cut; nothing is told of them any more.
  void EndThreads();

  static bool IsOnThread(proto::PeerId peer) { return net::LinkThread::NumberOf(peer) != 0; }

  proto::Term TermOf(proto::PeerId peer) const { return endpoint_.TermOf(peer); }

  void SetQueueBytesMax(uint64_t bytes);
  void CloseAll(const std::function<void()>& done);

  // proto::Outbox.
  void Send(proto::PeerId to, uint64_t request_id, proto::Message message) override;
  bool IsBacklogged(proto::PeerId peer) const override;
  void Flush(proto::PeerId peer) override;
  void Close(proto::PeerId peer) override;

 private:
  Attempt Connect(
      size_t thread,
      const std::string& host,
      uint32_t port,
      proto::Hello hello,
      net::Endpoint::ConnectCallback done,
      net::RetryPolicy retry);
  /// Null: the loop's.
  net::LinkThread* LinkOf(proto::PeerId peer) const;
  net::LinkThread* Link(size_t thread);

  net::Loop* const loop_;
  net::EndpointOptions options_;
  const Logger* const log_;
  net::EndpointHandler* const handler_;
  net::Endpoint endpoint_;
  size_t threads_ = 1;
  uint64_t first_number_ = 1;                            // of links_
  std::vector<std::unique_ptr<net::LinkThread>> links_;  // of threads 1, 2, ...; made when needed
};

}  // namespace ps::worker
