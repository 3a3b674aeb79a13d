#include "ps/coordinator/job_disk.h"

#include <array>
#include <chrono>
#include <string>
#include <utility>

#include "ps/base/time.h"

namespace ps::coordinator {

JobDisk::JobDisk(checkpoint::JobStore* store, Answers answers)
    : store_(store), answers_(std::move(answers)), thread_([this](Request request) {
        std::visit([this](auto& one) { Do(std::move(one)); }, request);
      }) {}

void JobDisk::Answer(const std::function<bool()>& deliver) {
  while (!deliver() && thread_.PauseUnlessEnding(std::chrono::milliseconds(1))) {
  }
}

void JobDisk::Do(ManifestWrite write) {
  const Status status = Write(&write);
  Answer([&] { return answers_.written(write.checkpoint, status); });
}

void JobDisk::Do(Wanted wanted) {
  const auto read = [&]() -> Result<checkpoint::Manifest> {
    PS_ASSIGN(const std::vector<std::byte> bytes, store_->ReadManifest(wanted.checkpoint));
    return checkpoint::DecodeManifest(wanted.checkpoint, bytes);
  };
  const auto manifest = std::make_shared<const Result<checkpoint::Manifest>>(read());
  Answer([&] { return answers_.read(wanted.checkpoint, manifest); });
}

void JobDisk::Do(const std::vector<checkpoint::SetAside>& set_aside) {
  store_->NoteSetAside(set_aside).Ignore(
      "a coordinator that comes back finds out again that they can't be restored");
}

void JobDisk::Do(Opened opened) {
  const std::string text = std::to_string(opened.checkpoint + 1);
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
