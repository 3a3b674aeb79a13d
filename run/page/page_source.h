#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ps/proto/messages.h"
#include "run/page/page_control.h"

namespace ps::run {

/// A status of a run, as a page shows it. The text of all who look at it is made once.
class PageLook {
 public:
  /// `plan`: a JSON object about what the run was planned to come to; empty: it was not.
  PageLook(std::shared_ptr<const proto::JobStatus> status, const std::string& plan);

  const proto::JobStatus& status() const { return *status_; }

  /// AddPageState's object.
  const std::string& json() const { return json_; }

 private:
  const std::shared_ptr<const proto::JobStatus> status_;
  const std::string json_;
};

/// Where a page has a run from: the coordinator that runs it, or what is left of it on disk.
/// Thread: any, several at a time.
class PageSource {
 public:
  virtual ~PageSource() = default;

  struct Now {
    std::shared_ptr<const PageLook> look;  // null: nothing is known yet
    double age_s = 0;                      // of the look
  };

  virtual Now Look() = 0;
  /// As HistoryToJson.
  virtual std::string History(double after_unix_s, uint32_t thinned) = 0;
  /// Those that are still known after event number `after`; the oldest first.
  virtual std::vector<proto::EventRow> EventsAfter(uint64_t after) = 0;
  /// Null: the run takes no orders here.
  virtual const PageSteering* steering() const = 0;
};

}  // namespace ps::run
