#include "ps/server/disk_thread.h"

#include <chrono>
#include <memory>
#include <utility>

namespace ps::server {
namespace {

template <typename... F>
struct Overloaded : F... {
  using F::operator()...;
};

template <typename... F>
Overloaded(F...) -> Overloaded<F...>;

}  // namespace

DiskThread::DiskThread(
    checkpoint::Storage* storage, ShardId shard, net::Loop* loop, Answers answers)
    : loop_(loop),
      answers_(std::move(answers)),
      work_(storage, shard),
      thread_([this] { Run(); }) {}

DiskThread::~DiskThread() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void DiskThread::Use(std::string path, checkpoint::Codec codec) {
  Add(Place{std::move(path), codec});
}

void DiskThread::Add(Request request) {
  {
    const std::lock_guard lock(mutex_);
    requests_.push_back(std::move(request));
  }
  wake_.notify_one();
}

void DiskThread::Run() {
  while (true) {
    Request request;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return is_ending_ || !requests_.empty(); });
      if (is_ending_) {
        return;
      }
      request = std::move(requests_.front());
      requests_.pop_front();
    }
    std::visit(
        Overloaded{
            [&](Place& place) { work_.Use(std::move(place.path), place.codec); },
            [&](const ChunkWrite& write) {
              auto written = std::make_shared<ChunkWritten>(work_.Do(write));
              Answer([this, written] { answers_.chunk(std::move(*written)); });
            },
            [&](const PartWrite& write) {
              auto written = std::make_shared<PartWritten>(work_.Do(write));
              Answer([this, written] { answers_.part(std::move(*written)); });
            },
            [&](const RestoreRequest& what) {
              auto restored = std::make_shared<Restored>(work_.Do(what));
              Answer([this, restored] { answers_.restored(std::move(*restored)); });
            }},
        request);
  }
}

/// An answer must not get lost, so a loop that is too busy is asked again.
void DiskThread::Answer(std::function<void()> deliver) {
  while (!loop_->Post(deliver).ok()) {
    std::unique_lock lock(mutex_);
    if (wake_.wait_for(lock, std::chrono::milliseconds(1), [this] { return is_ending_; })) {
      return;
    }
  }
}

}  // namespace ps::server
