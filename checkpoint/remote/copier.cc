#include "checkpoint/remote/copier.h"

#include <utility>

namespace ps::checkpoint {
namespace {

constexpr int kAttemptsMax = 3;

bool IsPassing(const Status& status) {
  return status.code() == StatusCode::kUnavailable ||
         status.code() == StatusCode::kDeadlineExceeded;
}

}  // namespace

/// The thread's part, which owns all that it uses: a place that hangs may keep it for longer than
/// its Copier lives.
class Copier::Desk {
 public:
  Desk(Options options, std::shared_ptr<Shared> shared)
      : options_(std::move(options)), shared_(std::move(shared)) {}

  void Copy();

 private:
  Result<UploadReport> TryToCopy();

  const Options options_;
  const std::shared_ptr<Shared> shared_;
  CopyState state_;
  std::unique_ptr<store::ObjectStore> target_;
  std::unique_ptr<Uploader> uploader_;
};

Copier::Copier(Options options)
    : shared_(std::make_shared<Shared>()),
      thread_([desk = std::make_shared<Desk>(std::move(options), shared_)](int /*request*/) {
        desk->Copy();
      }) {}

Copier::~Copier() {
  shared_->ending.Begin();
}

bool Copier::EndWithin(Duration limit) {
  shared_->ending.Begin();
  return thread_.EndWithin(limit);
}

void Copier::Poke() {
  std::atomic<int>& all = shared_->pending;
  int pending = all;
  while (pending < 2 && !all.compare_exchange_weak(pending, pending + 1)) {
  }
  if (pending < 2) {
    thread_.Add(0);
  }
}

void Copier::Desk::Copy() {
  Result<UploadReport> report = TryToCopy();
  for (int attempt = 1; IsPassing(report.status()) && attempt < kAttemptsMax &&
                        shared_->ending.PauseUnlessBegun(options_.retry_wait);
       ++attempt) {
    report = TryToCopy();
  }
  if (report.ok()) {
    state_.copied += report->copied.size();
    state_.sent_bytes += report->sent_bytes;
    state_.newest = report->copied.empty() ? state_.newest : report->copied.back();
    state_.trouble.clear();
  } else if (report.status().code() != StatusCode::kCancelled) {
    ++state_.failed;
    state_.trouble = report.status().message();
  }
  shared_->ending.Deliver([this] {
    options_.told(state_);
    return true;
  });
  --shared_->pending;
}

Result<UploadReport> Copier::Desk::TryToCopy() {
  if (uploader_ == nullptr) {
    PS_ASSIGN(
        target_,
        options_.open(
            [shared = shared_](Duration wait) { return shared->ending.PauseUnlessBegun(wait); },
            [shared = shared_] { return shared->ending.has_begun(); }));
    uploader_ = std::make_unique<Uploader>(
        options_.path,
        target_.get(),
        UploadOptions{.writer = options_.writer, .keep = options_.keep, .on_progress = nullptr});
  }
  return uploader_->Run();
}

}  // namespace ps::checkpoint
