#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "ps/base/time.h"
#include "run/page/history.h"
#include "run/page/page_source.h"

namespace ps::run {

/// Between the coordinator's loop and the page's threads. The loop never waits for them: it puts a
/// status up when somebody looks, and so seldom that making it takes less than a hundredth of its
/// time. Nobody looks: it costs an atomic read.
class PageBoard final : public PageSource {
 public:
  struct Options {
    std::string plan;          // as PageLook
    std::string past;          // metrics.jsonl of an earlier coordinator; empty: there is none
    PageSteering steering;     // what the buttons do
    size_t events_max = 1000;  // the newest
    Duration every_min = std::chrono::milliseconds(500);  // between two statuses
    Duration wait_max = std::chrono::seconds(1);          // of a reader, for a new one
    const TimeSource* time = &SystemTime();
  };

  explicit PageBoard(Options options);

  // Thread: the loop's.

  /// Whether a status is to be put up now.
  bool IsWanted(TimePoint now) const { return is_wanted_.load() && now >= next_; }

  /// `cost`: what it took the loop to make it.
  void PutUp(proto::JobStatus status, Duration cost, TimePoint now);
  void AddPoint(const HistoryPoint& point);
  void AddEvent(const proto::EventRow& event);

  // Thread: any.

  /// Nothing is put up any more: nobody waits for it.
  void End();

  Now Look() override;
  std::string History(double after_unix_s, uint32_t thinned) override;
  std::vector<proto::EventRow> EventsAfter(uint64_t after) override;

  const PageSteering* steering() const override { return &options_.steering; }

 private:
  /// A status as the loop left it; the first reader makes its text.
  struct Raw {
    std::shared_ptr<const proto::JobStatus> status;
    TimePoint at{};
  };

  void ReadPast();

  const Options options_;
  std::atomic<bool> is_wanted_ = false;
  TimePoint next_{};  // the loop's

  std::mutex mutex_;  // of what follows; never held during a rendering, or a read of a file
  std::condition_variable has_come_;
  Raw raw_;
  std::optional<TimePoint> wanted_since_;
  bool has_ended_ = false;
  run::History history_;
  std::deque<proto::EventRow> events_;

  std::mutex rendering_;  // held while a text is made: others wait for it instead of making it too
  std::shared_ptr<const PageLook> look_;  // the newest text, and of when it is
  TimePoint look_at_{};

  std::mutex past_;  // held while the past is read
  bool has_read_past_ = false;
};

}  // namespace ps::run
