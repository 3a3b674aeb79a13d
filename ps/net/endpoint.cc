#include "ps/net/endpoint.h"

#include <utility>

#include "ps/base/check.h"
#include "ps/net/internal/endpoint_impl.h"

namespace ps::net {

Endpoint::Endpoint(
    Loop* loop, EndpointOptions options, const Logger* logger, EndpointHandler* handler)
    : impl_(std::make_shared<Impl>(loop, std::move(options), logger, handler)) {}

Endpoint::~Endpoint() {
  impl_->Destroy();
}

Result<uint32_t> Endpoint::Listen(const std::string& host, uint32_t port) {
  return impl_->Listen(host, port);
}

Status Endpoint::ListenAtFile(const std::string& path) {
  return impl_->ListenAtFile(path);
}

void Endpoint::StopListening() {
  impl_->StopListening();
}

ConnectId Endpoint::Connect(
    const std::string& host,
    uint32_t port,
    proto::Hello hello,
    ConnectCallback done,
    const RetryPolicy& retry) {
  return impl_->Connect({host, port, ""}, std::move(hello), std::move(done), retry);
}

ConnectId Endpoint::ConnectToFile(
    const std::string& path, proto::Hello hello, ConnectCallback done, const RetryPolicy& retry) {
  return impl_->Connect({"", 0, path}, std::move(hello), std::move(done), retry);
}

void Endpoint::CancelConnect(ConnectId connect) {
  impl_->CancelConnect(connect);
}

void Endpoint::Send(proto::PeerId to, uint64_t request_id, proto::Message message) {
  if (Connection* connection = impl_->Find(to)) {
    connection->Send(request_id, message);
    impl_->BoundTotal();
  }
}

bool Endpoint::IsBacklogged(proto::PeerId peer) const {
  return impl_->IsBacklogged(peer);
}

void Endpoint::Flush(proto::PeerId peer) {
  if (Connection* connection = impl_->Find(peer)) {
    connection->FlushBatch();
  }
}

void Endpoint::Close(proto::PeerId peer) {
  if (Connection* connection = impl_->Find(peer)) {
    connection->Close(Status::Cancelled("closed here"));
  }
}

void Endpoint::CloseAfter(proto::PeerId peer, Duration delay) {
  if (Connection* connection = impl_->Find(peer)) {
    connection->CloseAfter(delay, Status::DeadlineExceeded("its time was over"));
  }
}

void Endpoint::KeepOpen(proto::PeerId peer) {
  if (Connection* connection = impl_->Find(peer)) {
    connection->KeepOpen();
  }
}

void Endpoint::CloseAll(std::function<void()> done) {
  impl_->CloseAll(std::move(done));
}

std::string Endpoint::NodeOf(proto::PeerId peer) const {
  return impl_->NodeOf(peer);
}

proto::Term Endpoint::TermOf(proto::PeerId peer) const {
  return impl_->TermOf(peer);
}

void Endpoint::SetQueueBytesMax(uint64_t bytes) {
  impl_->SetQueueBytesMax(bytes);
}

uint64_t Endpoint::TotalQueuedBytes() const {
  return impl_->queued_bytes();
}

uint64_t Endpoint::QueuedBytes(proto::PeerId peer) const {
  const Connection* connection = impl_->Find(peer);
  return connection == nullptr ? 0 : connection->queued_bytes();
}

Traffic Endpoint::TrafficOf(proto::PeerId peer) const {
  const Connection* connection = impl_->Find(peer);
  return connection == nullptr ? Traffic{} : connection->traffic();
}

Traffic Endpoint::TotalTraffic() const {
  return impl_->total();
}

uint32_t Endpoint::connection_count() const {
  return impl_->connection_count();
}

uint64_t Endpoint::turned_away() const {
  return impl_->turned_away();
}

}  // namespace ps::net
