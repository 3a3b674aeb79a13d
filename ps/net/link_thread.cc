#include "ps/net/link_thread.h"

#include <utility>
#include <variant>

#include "ps/base/check.h"

namespace ps::net {

LinkThread::LinkThread(
    uint64_t number,
    Loop* home,
    EndpointOptions options,
    const Logger* logger,
    EndpointHandler* handler)
    : number_(number), handler_(handler), to_home_(home), to_thread_(&loop_) {
  PS_CHECK(number > 0 && number <= kNumberMax && !options.emulated_link);
  EndpointHandler* const self = this;
  endpoint_ = std::make_unique<Endpoint>(&loop_, std::move(options), logger, self);
  thread_ = std::thread([this] { loop_.Run(); });
}

LinkThread::~LinkThread() {
  to_home_.Close();
  to_thread_.Close();  // a batch that it is at ends with the call in hand
  loop_.Stop();
  thread_.join();
  endpoint_.reset();
}

ConnectId LinkThread::Connect(
    const std::string& host,
    uint32_t port,
    proto::Hello hello,
    Endpoint::ConnectCallback done,
    RetryPolicy retry) {
  const ConnectId connect(++last_connect_);
  wanted_[connect] = std::move(done);
  if (retry.on_trouble) {
    retry.on_trouble = [this, tell = std::move(retry.on_trouble)](const Status& why) {
      to_home_.Put([tell, why] { tell(why); });
    };
  }
  to_thread_.Put([this, connect, host, port, hello = std::move(hello), retry = std::move(retry)] {
    attempts_[connect] = endpoint_->Connect(
        host,
        port,
        hello,
        [this, connect](const Result<proto::PeerId>& peer) {
          attempts_.erase(connect);
          to_home_.Put([this, connect, peer] { OnOutcome(connect, peer); });
        },
        retry);
  });
  return connect;
}

void LinkThread::OnOutcome(ConnectId connect, const Result<proto::PeerId>& peer) {
  const auto wanted = wanted_.extract(connect);
  if (wanted.empty()) {
    if (peer.ok()) {
      Close(OutsideOf(*peer));  // it was made while it was being given up
    }
    return;
  }
  if (!peer.ok()) {
    wanted.mapped()(peer);
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    backlogs_[OutsideOf(*peer)] = {};
  }
  wanted.mapped()(OutsideOf(*peer));
}

void LinkThread::CancelConnect(ConnectId connect) {
  if (wanted_.erase(connect) == 0) {
    return;
  }
  to_thread_.Put([this, connect] {
    if (const auto attempt = attempts_.extract(connect); !attempt.empty()) {
      endpoint_->CancelConnect(attempt.mapped());
    }
  });
}

void LinkThread::Send(proto::PeerId to, uint64_t request_id, proto::Message message) {
  {
    const std::lock_guard lock(mutex_);
    const auto backlog = backlogs_.find(to);
    if (backlog == backlogs_.end()) {
      return;  // it is gone
    }
    ++backlog->second.coming;
  }
  auto kept = std::make_shared<proto::Message>(std::move(message));
  to_thread_.Put([this, to, request_id, kept] {
    const proto::PeerId inside = InsideOf(to);
    endpoint_->Send(inside, request_id, std::move(*kept));
    const bool is_full = endpoint_->IsBacklogged(inside);
    const std::lock_guard lock(mutex_);
    if (const auto backlog = backlogs_.find(to); backlog != backlogs_.end()) {
      --backlog->second.coming;
      backlog->second.is_full = is_full;
    }
  });
}

bool LinkThread::IsBacklogged(proto::PeerId peer) const {
  const std::lock_guard lock(mutex_);
  const auto backlog = backlogs_.find(peer);
  return backlog != backlogs_.end() && (backlog->second.coming > 0 || backlog->second.is_full);
}

void LinkThread::Flush(proto::PeerId peer) {
  to_thread_.Put([this, peer] { endpoint_->Flush(InsideOf(peer)); });
}

void LinkThread::Close(proto::PeerId peer) {
  to_thread_.Put([this, peer] { endpoint_->Close(InsideOf(peer)); });
}

void LinkThread::SetQueueBytesMax(uint64_t bytes) {
  to_thread_.Put([this, bytes] { endpoint_->SetQueueBytesMax(bytes); });
}

void LinkThread::CloseAll(std::function<void()> done) {
  wanted_.clear();
  to_thread_.Put([this, done = std::move(done)] {
    endpoint_->CloseAll([this, done] { to_home_.Put(done); });
  });
}

void LinkThread::OnConnected(proto::PeerId peer, const proto::Hello& hello) {
  to_home_.Put([this, peer, hello] { handler_->OnConnected(OutsideOf(peer), hello); });
}

void LinkThread::OnMessage(proto::PeerId peer, uint64_t request_id, proto::Message&& message) {
  auto kept = std::make_shared<proto::Message>(std::move(message));
  to_home_.Put([this, peer, request_id, kept] {
    handler_->OnMessage(OutsideOf(peer), request_id, std::move(*kept));
  });
}

void LinkThread::OnClosed(proto::PeerId peer, const Status& why) {
  to_home_.Put([this, peer, why] {
    {
      const std::lock_guard lock(mutex_);
      backlogs_.erase(OutsideOf(peer));
    }
    handler_->OnClosed(OutsideOf(peer), why);
  });
}

void LinkThread::OnDrained(proto::PeerId peer) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto backlog = backlogs_.find(OutsideOf(peer)); backlog != backlogs_.end()) {
      backlog->second.is_full = false;
    }
  }
  to_home_.Put([this, peer] { handler_->OnDrained(OutsideOf(peer)); });
}

}  // namespace ps::net
