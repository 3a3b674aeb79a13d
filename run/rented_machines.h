#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "provisioner/rental/rental_desk.h"
#include "provisioner/rental/rental_note.h"
#include "ps/base/ids.h"
#include "ps/base/logger.h"
#include "ps/base/status.h"
#include "ps/proto/fleet_policy.h"
#include "ps/proto/job/job_config.h"
#include "run/directory/run_directory.h"

namespace ps::run {

/// The machines that a run rents for its workers, and what it leaves of them on disk: a note a
/// machine, and the key that they show.
class RentedMachines {
 public:
  /// Null when the job rents none. Goes on with those of an earlier coordinator of the run.
  /// Errors: kInvalidArgument (no credentials, a setup script that can't be read or is too long);
  /// kCorruption, kIo (a note).
  static Result<std::unique_ptr<RentedMachines>> Open(
      const proto::JobConfig& config, const RunDirectory& directory);

  provisioner::RentedHosts* hosts() { return desk_.get(); }

  provisioner::RentalDesk::Summary summary() const { return desk_->summary(); }

  /// What is paid for each worker's machine now, in USD an hour.
  std::map<WorkerId, double> worker_usd_per_hour() const;

  /// The worker that is to leave its machine now for one of another pool; none: all stay.
  std::optional<provisioner::RentalMove> TakeMove() { return desk_->TakeMove(); }

  /// Prices of now of all that the job may rent, as far as the provider or the job tells them.
  std::vector<proto::MarketPrice> prices() const;

  /// The folder of the keys that they show and let in.
  const std::string& keys() const { return keys_; }

  /// What they will cost and how far the budget goes, as names and values, before the first one is
  /// rented; empty for a run that goes on.
  const std::vector<std::pair<std::string, std::string>>& outlook() const { return outlook_; }

  /// Why some of what the job names can't be rented; empty: nothing is known against any of it.
  const std::string& warning() const { return warning_; }

  /// What else the budget is for.
  struct Spent {
    double usd = 0;
    double usd_per_hour = 0;
  };

  /// Why the run has to end now, so that its last minutes are within `budget.usd` too; empty: there
  /// is enough. `traffic`: what bytes between workers and servers have cost, and cost now.
  std::string WhyEnd(Spent traffic) const;

  /// Gives all back. True once nothing is left, or it takes too long: then `left` says how many.
  bool GiveBack(TimePoint now);
  /// The same, waiting.
  void GiveBackNow();

  /// Machines that may still cost, or whose disks may.
  size_t left() const { return desk_->is_over() ? 0 : desk_->left_count(); }

 private:
  RentedMachines(proto::BudgetConfig budget, double own_usd_per_hour, std::string folder)
      : budget_(budget), own_usd_per_hour_(own_usd_per_hour), notes_(std::move(folder)) {}

  const proto::BudgetConfig budget_;
  const double own_usd_per_hour_;  // of the machine that this is on
  int64_t since_us_ = 0;           // since 1970: from when it costs for the run
  provisioner::RentalFiles notes_;
  std::string keys_;
  std::vector<std::pair<std::string, std::string>> outlook_;
  std::string warning_;
  std::unique_ptr<provisioner::RentalDesk> desk_;
  std::optional<TimePoint> ending_since_;
};

/// Ends the machines that a run has left whose coordinator will not come back; they would end
/// themselves after launch.rent.watch_min. Returns how many were told to. Errors: kUnavailable (the
/// provider), kInvalidArgument (no credentials), kCorruption, kIo (what the run left on disk).
Result<size_t> ReleaseMachinesOf(const RunPaths& run);

}  // namespace ps::run
