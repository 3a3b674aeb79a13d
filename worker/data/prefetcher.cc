#include "worker/data/prefetcher.h"

#include <algorithm>
#include <utility>

#include "ps/base/time.h"

namespace ps::worker {

Prefetcher::Prefetcher(const BatchLayout& layout, Source source, Allocate allocate)
    : layout_(layout),
      source_(std::move(source)),
      allocate_(std::move(allocate)),
      thread_([this] { Run(); }) {}

Prefetcher::Prefetcher(const Dataset* dataset, uint64_t seed, BatchForm form, Allocate allocate)
    : Prefetcher(
          dataset->LayoutOf(form),
          [dataset, seed](const BatchId& batch, const BatchMemory& memory) {
            const EpochOrder order(seed, batch.epoch, dataset->info().train_count);
            return dataset->FetchTrain(order, batch.range, memory);
          },
          std::move(allocate)) {}

Prefetcher::~Prefetcher() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void Prefetcher::Foresee(const BatchId& batch) {
  const std::lock_guard lock(mutex_);
  if (stage_ == Stage::kNothing) {
    Want(batch);
  } else if (!(batch == foreseen_)) {
    after_ = batch;  // what was foreseen before may be about to be taken
  }
}

Result<BatchMemory> Prefetcher::Take(const BatchId& batch) {
  const TimePoint begin = SystemTime().Now();
  std::unique_lock lock(mutex_);
  // A fetch of another batch is waited for as well where memory has to grow under it.
  changed_.wait(lock, [&] {
    const bool needs_slots = batch == foreseen_ || slots_[1 - taken_].capacity < batch.count();
    return stage_ != Stage::kFetching || !needs_slots;
  });
  ++figures_.batches;
  const bool is_ready = stage_ == Stage::kReady && batch == foreseen_;
  const Status fetched = is_ready ? std::exchange(fetched_, Status::Ok()) : Status::Ok();
  if (is_ready) {
    taken_ = 1 - taken_;
    ++figures_.foreseen;
  } else {
    PS_TRY(MakeRoom(taken_, batch.count()));
    if (stage_ != Stage::kFetching) {
      const bool was_ready = stage_ == Stage::kReady;
      const bool grows = slots_[1 - taken_].capacity < batch.count();
      PS_TRY(MakeRoom(1 - taken_, batch.count()));
      stage_ = was_ready && grows ? Stage::kWanted : stage_;  // it went with its memory
    }
  }
  const BatchMemory memory = layout_.At(slots_[taken_].data, batch.count());
  WantNext(batch);
  lock.unlock();
  const Status done = is_ready ? fetched : source_(batch, memory);
  figures_.waited_s += Seconds(SystemTime().Now() - begin);
  PS_TRY(done);
  return memory;
}

/// After `taken`: what was foreseen last, unless it is that one or on its way.
void Prefetcher::WantNext(const BatchId& taken) {
  if (stage_ == Stage::kFetching) {
    return;  // of another batch
  }
  const std::optional<BatchId> after = std::exchange(after_, std::nullopt);
  if (after && !(*after == taken)) {
    Want(*after);
  } else if (after || taken == foreseen_) {
    stage_ = Stage::kNothing;
  } else if (stage_ == Stage::kWanted) {
    changed_.notify_all();  // it may have room now
  }
}

void Prefetcher::Want(const BatchId& batch) {
  foreseen_ = batch;
  stage_ = Stage::kWanted;
  changed_.notify_all();
}

void Prefetcher::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    // The first batch of a size is not fetched ahead: Take makes room for both.
    changed_.wait(lock, [this] {
      return is_stopping_ ||
             (stage_ == Stage::kWanted && slots_[1 - taken_].capacity >= foreseen_.count());
    });
    if (is_stopping_) {
      return;
    }
    stage_ = Stage::kFetching;
    const BatchId batch = foreseen_;
    const BatchMemory memory = layout_.At(slots_[1 - taken_].data, batch.count());
    lock.unlock();
    Status fetched = source_(batch, memory);
    lock.lock();
    fetched_ = std::move(fetched);
    stage_ = Stage::kReady;
    changed_.notify_all();
  }
}

Status Prefetcher::MakeRoom(int slot, uint64_t samples) {
  if (slots_[slot].capacity < samples) {
    slots_[slot].capacity = 0;
    PS_ASSIGN(slots_[slot].data, allocate_(slot, layout_.BytesFor(samples)));
    slots_[slot].capacity = samples;
  }
  return Status::Ok();
}

}  // namespace ps::worker
