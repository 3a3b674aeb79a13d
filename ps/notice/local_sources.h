#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "ps/notice/notice_source.h"

namespace ps::notice {

/// A file that an agent of the machine writes: the seconds that are left. Text that is no number is
/// a notice that leaves no time. An empty file is a notice only if it is still empty at the next
/// question, since its writer may be about to write.
class FileSource final : public NoticeSource {
 public:
  explicit FileSource(std::string path) : path_(std::move(path)) {}

  std::string_view name() const override { return "file"; }

  /// Errors: kIo where the file can't be read, kUnavailable where it is empty at first.
  Result<std::optional<ProviderNotice>> Ask() override;
  Duration period() const override;

  bool may_withdraw() const override { return false; }

 private:
  const std::string path_;
  bool is_empty_ = false;  // at the last question
};

/// A signal to this process, as Slurm and Kubernetes send one. The grace counts from the first.
/// Thread: any.
class SignalSource final : public NoticeSource {
 public:
  /// `time` outlives the source.
  SignalSource(Duration grace, const TimeSource* time) : grace_(grace), time_(time) {}

  std::string_view name() const override { return "signal"; }

  /// It came. Not from within a handler of signals.
  void Note(int signal);

  Result<std::optional<ProviderNotice>> Ask() override;

  Duration period() const override { return Duration::zero(); }

  bool may_withdraw() const override { return false; }

 private:
  const Duration grace_;
  const TimeSource* const time_;
  std::mutex mutex_;
  int signal_ = 0;  // the first; 0: none
  TimePoint came_{};
};

}  // namespace ps::notice
