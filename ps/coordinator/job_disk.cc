#include "ps/coordinator/job_disk.h"

#include <array>
#include <chrono>
#include <string>
#include <utility>

#include "ps/base/time.h"

namespace ps::coordinator {

JobDisk::JobDisk(checkpoint::JobStore* store, Answer answer)
    : store_(store),
      answer_(std::move(answer)),
      thread_([this](Request request) { Do(std::move(request)); }) {}

void JobDisk::Do(Request request) {
  if (const auto* opened = std::get_if<uint64_t>(&request)) {
    WriteNext(*opened + 1);
    return;
  }
  auto& write = std::get<ManifestWrite>(request);
  const Status status = Write(&write);
  while (!answer_(write.checkpoint, status) &&
         thread_.PauseUnlessEnding(std::chrono::milliseconds(1))) {
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
