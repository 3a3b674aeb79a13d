#include "ps/coordinator/job_disk.h"

#include <array>
#include <chrono>
#include <string>
#include <utility>

#include "ps/base/time.h"

namespace ps::coordinator {

JobDisk::JobDisk(checkpoint::JobStore* store, Answer answer)
    : store_(store), answer_(std::move(answer)), thread_([this] { Run(); }) {}

JobDisk::~JobDisk() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void JobDisk::Add(Request request) {
  {
    const std::lock_guard lock(mutex_);
    requests_.push_back(std::move(request));
  }
  wake_.notify_one();
}

void JobDisk::Run() {
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
    if (const auto* opened = std::get_if<uint64_t>(&request)) {
      WriteNext(*opened + 1);
      continue;
    }
    auto& write = std::get<ManifestWrite>(request);
    const Status status = Write(&write);
    while (!answer_(write.checkpoint, status)) {
      std::unique_lock lock(mutex_);
      if (wake_.wait_for(lock, std::chrono::milliseconds(1), [this] { return is_ending_; })) {
        return;
      }
    }
  }
}

void JobDisk::WriteNext(uint64_t checkpoint) {
  const std::string text = std::to_string(checkpoint);
  const std::array change = {checkpoint::RowChange{
      checkpoint::ChangeKind::kPut, kNextCheckpointRow, std::as_bytes(std::span(text))}};
  store_->WriteRows(change).Ignore(
      "a shard refuses a number that was used, and the next one is taken");
}

Status JobDisk::Write(ManifestWrite* write) {
  write->manifest.unix_micros = SystemTime().UnixMicros();
  PS_TRY(store_->PutManifest(write->checkpoint, checkpoint::EncodeManifest(write->manifest)));
  for (const uint64_t dropped : write->dropped) {
    PS_TRY(store_->DeleteManifest(dropped));
  }
  return Status::Ok();
}

}  // namespace ps::coordinator
