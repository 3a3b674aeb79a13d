#include "ps/coordinator/checkpoints/job_disk.h"

#include <array>
#include <string>
#include <utility>

#include "ps/base/time.h"

namespace ps::coordinator {

/// The thread's part, which owns all that it uses: a disk that hangs may keep it for longer than
/// its JobDisk lives.
class JobDisk::Desk {
 public:
  Desk(std::shared_ptr<checkpoint::JobStore> store, Answers answers, std::shared_ptr<Ending> ending)
      : store_(std::move(store)), answers_(std::move(answers)), ending_(std::move(ending)) {}

  void Do(ManifestWrite write) {
    const Status status = Write(&write);
    ending_->Deliver([&] { return answers_.written(write.checkpoint, status); });
  }

  void Do(Wanted wanted) {
    const auto read = [&]() -> Result<checkpoint::Manifest> {
      PS_ASSIGN(const std::vector<std::byte> bytes, store_->ReadManifest(wanted.checkpoint));
      return checkpoint::DecodeManifest(wanted.checkpoint, bytes);
    };
    const auto manifest = std::make_shared<const Result<checkpoint::Manifest>>(read());
    ending_->Deliver([&] { return answers_.read(wanted.checkpoint, manifest); });
  }

  void Do(const std::vector<checkpoint::SetAside>& set_aside) {
    store_->NoteSetAside(set_aside).Ignore(
        "a coordinator that comes back finds out again that they can't be restored");
  }

  void Do(Opened opened) {
    const std::string text = std::to_string(opened.checkpoint + 1);
    const std::array change = {checkpoint::RowChange{
        checkpoint::ChangeKind::kPut, kNextCheckpointRow, std::as_bytes(std::span(text))}};
    store_->WriteRows(change).Ignore(
        "a shard refuses a number that was used, and the next one is taken");
  }

 private:
  Status Write(ManifestWrite* write) {
    write->manifest.unix_micros = SystemTime().UnixMicros();
    PS_TRY(store_->PutManifest(write->checkpoint, checkpoint::EncodeManifest(write->manifest)));
    for (const uint64_t dropped : write->dropped) {
      PS_TRY(store_->DeleteManifest(dropped));
    }
    return Status::Ok();
  }

  const std::shared_ptr<checkpoint::JobStore> store_;
  const Answers answers_;
  const std::shared_ptr<Ending> ending_;
};

JobDisk::JobDisk(std::shared_ptr<checkpoint::JobStore> store, Answers answers)
    : ending_(std::make_shared<Ending>()),
      thread_([desk = std::make_shared<Desk>(std::move(store), std::move(answers), ending_)](
                  Request request) {
        std::visit([&desk](auto& one) { desk->Do(std::move(one)); }, request);
      }) {}

JobDisk::~JobDisk() {
  ending_->Begin();
}

bool JobDisk::EndWithin(Duration limit) {
  ending_->Begin();
  return thread_.EndWithin(limit);
}

}  // namespace ps::coordinator
