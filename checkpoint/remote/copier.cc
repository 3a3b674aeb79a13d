#include "checkpoint/remote/copier.h"

#include <utility>

namespace ps::checkpoint {

Copier::Copier(Options options)
    : options_(std::move(options)), thread_([this](int /*request*/) { Copy(); }) {}

Copier::~Copier() {
  is_ending_ = true;
}

void Copier::Poke() {
  int pending = pending_;
  while (pending < 2 && !pending_.compare_exchange_weak(pending, pending + 1)) {
  }
  if (pending < 2) {
    thread_.Add(0);
  }
}

namespace {

constexpr int kAttemptsMax = 3;

bool IsPassing(const Status& status) {
  return status.code() == StatusCode::kUnavailable ||
         status.code() == StatusCode::kDeadlineExceeded;
}

}  // namespace

void Copier::Copy() {
  Result<UploadReport> report = TryToCopy();
  for (int attempt = 1; IsPassing(report.status()) && attempt < kAttemptsMax &&
                        thread_.PauseUnlessEnding(options_.retry_wait);
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
  options_.told(state_);
  --pending_;
}

Result<UploadReport> Copier::TryToCopy() {
  if (uploader_ == nullptr) {
    PS_ASSIGN(
        target_,
        options_.open(
            [this](Duration wait) { return thread_.PauseUnlessEnding(wait); },
            [this] { return is_ending_.load(); }));
    uploader_ = std::make_unique<Uploader>(
        options_.path,
        target_.get(),
        UploadOptions{.writer = options_.writer, .keep = options_.keep, .on_progress = nullptr});
  }
  return uploader_->Run();
}

}  // namespace ps::checkpoint
