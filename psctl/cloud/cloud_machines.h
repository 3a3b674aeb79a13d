#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "provisioner/provider/provider.h"
#include "ps/base/status.h"
#include "ps/proto/job/job_config.h"
#include "run/directory/run_registry.h"

namespace ps::psctl {

// Which machines there are, and whose.

/// Ok, or kUnavailable with the provider's words.
Status StatusOf(const provisioner::CallEnd& end);

/// A machine that still costs, as it is shown.
struct CloudRow {
  provisioner::Machine machine;
  std::string run;
  std::string owner;      // the machine and user whose psctl rents it
  bool is_owned = false;  // by a run that lives on this machine, or was begun here
  bool is_kept = false;   // a head, which has what its run made, and whose run was not named
  double hours = 0;
  double usd_per_hour = 0;  // 0: not known
};

struct FoundMachines {
  std::vector<CloudRow> rows;  // the oldest first
  /// Why it is not known of some run that lives which machines it has.
  Status unknown;
};

/// Those of all runs, or of the one that `name` means: its folder here, or its name in the list.
/// Errors: kUnavailable, and those of run::RentalRunName.
Result<FoundMachines> FindMachines(
    const std::string& name, const run::RunRegistry& registry, provisioner::Provider* provider);

/// Where it was looked, which is not everywhere: "region us-east-1".
std::string PlaceText(const proto::JobConfig& config);

/// What there is instead of machines of the run that was named: a line. Errors: kUnavailable.
Result<std::string> OtherRunsText(
    const std::string& name, const proto::JobConfig& config, provisioner::Provider* provider);

/// A table, and what all cost.
std::string RenderMachines(
    const std::vector<CloudRow>& rows, const proto::JobConfig& config, size_t width);
std::string JsonOf(const std::vector<CloudRow>& rows);

}  // namespace ps::psctl
