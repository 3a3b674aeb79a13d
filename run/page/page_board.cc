#include "run/page/page_board.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace ps::run {
namespace {

/// Making statuses takes at most this part of the loop's time.
constexpr int kShareOfLoop = 200;

}  // namespace

PageBoard::PageBoard(Options options) : options_(std::move(options)) {}

void PageBoard::PutUp(proto::JobStatus status, Duration cost, TimePoint now) {
  is_wanted_ = false;
  next_ = now + std::max(options_.every_min, cost * kShareOfLoop);
  auto shared = std::make_shared<const proto::JobStatus>(std::move(status));
  {
    const std::lock_guard lock(mutex_);
    std::swap(raw_.status, shared);
    raw_.at = now;
    wanted_since_.reset();
  }
  has_come_.notify_all();
  // The one before goes here, outside of the mutex, unless a reader has it.
}

void PageBoard::End() {
  {
    const std::lock_guard lock(mutex_);
    has_ended_ = true;
  }
  has_come_.notify_all();
}

void PageBoard::AddPoint(const HistoryPoint& point) {
  const std::lock_guard lock(mutex_);
  history_.Add(point);
}

void PageBoard::AddEvent(const proto::EventRow& event) {
  const std::lock_guard lock(mutex_);
  events_.push_back(event);
  if (events_.size() > options_.events_max) {
    events_.pop_front();
  }
}

PageSource::Now PageBoard::Look() {
  Raw raw;
  {
    std::unique_lock lock(mutex_);
    const TimePoint asked = options_.time->Now();
    if (raw_.status == nullptr || asked - raw_.at >= options_.every_min) {
      if (!wanted_since_) {
        wanted_since_ = asked;
      }
      is_wanted_ = true;
      // A loop that was asked long ago and is busy is not waited for by everyone who comes.
      const Duration left = options_.wait_max - (asked - *wanted_since_);
      const TimePoint before = raw_.at;
      if (left > Duration::zero()) {
        has_come_.wait_for(lock, left, [&] { return has_ended_ || raw_.at != before; });
      }
    }
    raw = raw_;
  }
  if (raw.status == nullptr) {
    return {};
  }
  const std::lock_guard rendering(rendering_);
  if (look_ == nullptr || look_at_ != raw.at) {
    look_ = std::make_shared<const PageLook>(raw.status, options_.plan);
    look_at_ = raw.at;
  }
  return {look_, Seconds(options_.time->Now() - raw.at)};
}

void PageBoard::ReadPast() {
  const std::lock_guard reading(past_);
  if (has_read_past_ || options_.past.empty()) {
    return;
  }
  has_read_past_ = true;
  Result<run::History> past = ReadHistory(options_.past);
  if (!past.ok()) {
    return;  // the page begins with this coordinator then
  }
  const std::lock_guard lock(mutex_);
  for (const HistoryPoint& point : history_.points()) {
    past->Add(point);
  }
  history_ = std::move(past).value();
}

std::string PageBoard::History(double after_unix_s, uint32_t thinned) {
  ReadPast();
  std::optional<run::History> history;
  {
    const std::lock_guard lock(mutex_);
    history.emplace(history_);
  }
  return HistoryToJson(*history, after_unix_s, thinned);
}

std::vector<proto::EventRow> PageBoard::EventsAfter(uint64_t after) {
  const std::lock_guard lock(mutex_);
  std::vector<proto::EventRow> events;
  std::ranges::copy_if(events_, std::back_inserter(events), [after](const proto::EventRow& event) {
    return event.number > after;
  });
  return events;
}

}  // namespace ps::run
