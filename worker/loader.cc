#include "worker/loader.h"

#include <utility>

#include "ps/base/check.h"

namespace ps::worker {

Loader::Loader(net::Loop* loop, Make make, std::function<void()> on_loaded)
    : loop_(loop), make_(std::move(make)), on_loaded_(std::move(on_loaded)) {}

Loader::~Loader() {
  Stop();
}

void Loader::Start(const proto::JobConfig& config, Backends backends) {
  PS_CHECK(!is_loading() && loaded_.ok() && *loaded_ == nullptr) << "a second trainer at a time";
  progress_ = std::make_unique<LoadProgress>();
  thread_ = std::thread([this, config, own = std::move(backends)]() mutable {
    loaded_ = make_(config, std::move(own), progress_.get());
    const Status posted = loop_->Post([this] { OnDone(); });
    PS_CHECK(posted.ok()) << posted;
  });
}

void Loader::OnDone() {
  if (!thread_.joinable()) {
    return;  // stopped meanwhile
  }
  thread_.join();
  progress_.reset();
  on_loaded_();
}

Result<std::unique_ptr<Trainer>> Loader::Take() {
  return std::exchange(loaded_, std::unique_ptr<Trainer>());
}

void Loader::Stop() {
  if (thread_.joinable()) {
    progress_->Cancel();
    thread_.join();
    progress_.reset();
  }
}

}  // namespace ps::worker
