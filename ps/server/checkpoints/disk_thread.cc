#include "ps/server/checkpoints/disk_thread.h"

#include <chrono>
#include <memory>
#include <utility>

#include "ps/base/overloaded.h"

namespace ps::server {

DiskThread::DiskThread(
    checkpoint::Storage* storage, ShardId shard, net::Loop* loop, Answers answers)
    : loop_(loop),
      answers_(std::move(answers)),
      work_(storage, shard),
      thread_([this](Request r) { Do(std::move(r)); }) {}

void DiskThread::Use(DiskPlace place) {
  thread_.Add(std::move(place));
}

void DiskThread::Do(Request request) {
  std::visit(
      Overloaded{
          [&](DiskPlace& place) { work_.Use(std::move(place)); },
          [&](const ReleaseRequest& what) { work_.Do(what); },
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

/// An answer must not get lost, so a loop that is too busy is asked again.
void DiskThread::Answer(const std::function<void()>& deliver) {
  while (!loop_->Post(deliver).ok() && thread_.PauseUnlessEnding(std::chrono::milliseconds(1))) {
  }
}

}  // namespace ps::server
