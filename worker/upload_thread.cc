#include "worker/upload_thread.h"

#include <iterator>
#include <utility>

#include "ps/base/check.h"

namespace ps::worker {

void UploadThread::Put(
    client::PullIntake::Fresh fresh, client::HostTensors* tensors, Trainer* trainer) {
  const std::lock_guard lock(mutex_);
  queue_.push_back({std::move(fresh), tensors, trainer});
  changed_.notify_all();
}

void UploadThread::BeginTask() {
  const std::lock_guard lock(mutex_);
  PS_CHECK(!is_held_) << "a task begins before another one has ended";
  is_held_ = true;
  admitted_ = queue_.size();
}

void UploadThread::AwaitAll() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return (queue_.empty() && !is_busy_) || is_stopping_; });
}

void UploadThread::Stop() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) {
    thread_.join();
  }
}

bool UploadThread::AwaitTaskValues() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return (admitted_ == 0 && !is_busy_) || is_stopping_; });
  return !is_stopping_;
}

void UploadThread::LetOn() {
  const std::lock_guard lock(mutex_);
  is_held_ = false;
  changed_.notify_all();
}

void UploadThread::EndTask() {
  LetOn();
}

void UploadThread::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(
        lock, [this] { return is_stopping_ || (!queue_.empty() && (!is_held_ || admitted_ > 0)); });
    if (is_stopping_) {
      return;
    }
    Entry entry = std::move(queue_.front());
    queue_.pop_front();
    admitted_ -= admitted_ > 0 ? 1 : 0;
    is_busy_ = true;
    lock.unlock();
    Take(entry);
    entry = {};  // the frame's memory goes back
    lock.lock();
    is_busy_ = false;
    changed_.notify_all();
  }
}

/// A place gets a new value when the one before it has left.
void UploadThread::Take(const Entry& entry) {
  const int64_t begin = entry.fresh.offset;
  const int64_t end = begin + int64_t{entry.fresh.element_count};
  if (IsLeaving(begin, end)) {
    entry.trainer->SettleUploads();
    leaving_.clear();
  }
  entry.trainer->Upload({begin, entry.tensors->Take(entry.fresh)});
  leaving_[begin] = end;
}

bool UploadThread::IsLeaving(int64_t begin, int64_t end) const {
  const auto next = leaving_.lower_bound(end);
  return next != leaving_.begin() && std::prev(next)->second > begin;
}

}  // namespace ps::worker
