#include "ps/server/checkpoints/disk_thread.h"

#include "ps/base/overloaded.h"

namespace ps::server {

/// What the thread works with. It owns all of it, for the thread may come back from a disk that
/// hung when the DiskThread is gone.
class DiskThread::Desk {
 public:
  Desk(
      std::shared_ptr<checkpoint::Storage> storage,
      ShardId shard,
      net::Loop* loop,
      Answers answers,
      std::shared_ptr<Ending> ending)
      : storage_(std::move(storage)),
        work_(storage_.get(), shard),
        loop_(loop),
        answers_(std::make_shared<const Answers>(std::move(answers))),
        ending_(std::move(ending)) {}

  void Do(Request request) {
    std::visit(
        Overloaded{
            [&](DiskPlace& place) { work_.Use(std::move(place)); },
            [&](const ReleaseRequest& what) { work_.Do(what); },
            [&](const ChunkWrite& write) { Answer(work_.Do(write), &Answers::chunk); },
            [&](const PartWrite& write) { Answer(work_.Do(write), &Answers::part); },
            [&](const RestoreRequest& what) { Answer(work_.Do(what), &Answers::restored); }},
        request);
  }

 private:
  /// An answer must not get lost, so a loop that is too busy is asked again.
  template <typename T>
  void Answer(T answer, std::function<void(T)> Answers::*to) {
    auto kept = std::make_shared<T>(std::move(answer));
    const std::function<void()> deliver = [answers = answers_, kept, to] {
      ((*answers).*to)(std::move(*kept));
    };
    ending_->Deliver([&] { return loop_->Post(deliver).ok(); });
  }

  const std::shared_ptr<checkpoint::Storage> storage_;
  DiskWork work_;
  net::Loop* const loop_;  // until the end has begun
  const std::shared_ptr<const Answers> answers_;
  const std::shared_ptr<Ending> ending_;
};

DiskThread::DiskThread(
    std::shared_ptr<checkpoint::Storage> storage, ShardId shard, net::Loop* loop, Answers answers)
    : ending_(std::make_shared<Ending>()),
      thread_([desk = std::make_shared<Desk>(
                   std::move(storage), shard, loop, std::move(answers), ending_)](Request request) {
        desk->Do(std::move(request));
      }) {}

DiskThread::~DiskThread() {
  ending_->Begin();
}

bool DiskThread::EndWithin(Duration limit) {
  ending_->Begin();
  return thread_.EndWithin(limit);
}

}  // namespace ps::server
