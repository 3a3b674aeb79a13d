#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ps/base/time.h"
#include "run/directory/event_log.h"
#include "run/directory/run_directory.h"
#include "run/page/history.h"
#include "run/page/page_source.h"

namespace ps::run {

/// A run from its directory: an ended one from its summary, a running one by asking its
/// coordinator, as psctl status does. Takes no orders. Thread: any.
class DirectorySource final : public PageSource {
 public:
  explicit DirectorySource(RunPaths paths) : paths_(std::move(paths)), reader_(paths_) {}

  Now Look() override;
  std::string History(double after_unix_s, uint32_t thinned) override;
  std::vector<proto::EventRow> EventsAfter(uint64_t after) override;

  const PageSteering* steering() const override { return nullptr; }

 private:
  proto::JobStatus ReadStatus() const;

  const RunPaths paths_;
  std::mutex mutex_;  // of what follows
  Now now_;
  TimePoint looked_at_{};
  EventReader reader_;
  std::deque<proto::EventRow> events_;
  uint64_t numbered_ = 0;  // events, in the order of the file
  run::History history_;
  TimePoint history_at_{};
};

}  // namespace ps::run
