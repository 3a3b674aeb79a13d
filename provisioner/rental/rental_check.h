#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "provisioner/provider/provider.h"
#include "ps/base/status.h"
#include "ps/proto/job/job_config.h"

namespace ps::provisioner {

/// Machines that a job wants, each of any of these pools.
struct MachineDemand {
  std::vector<Pool> pools;
  uint32_t count = 0;
};

/// One of each group of the job's workers.
std::vector<MachineDemand> DemandsOf(const proto::JobConfig& config);

/// Whether quotas have room for all of them, by what a provider's check said; nothing: it did not
/// say how much there is.
std::optional<CheckLine> CheckRoom(
    const std::vector<CheckLine>& lines, const std::vector<MachineDemand>& demands);

/// Whether any of the request's pools could be rented, by what the provider says beforehand. What
/// it does not tell is no reason. Returns what speaks against some of them, or against as many as
/// are wanted; empty: nothing.
/// Errors: kInvalidArgument, with everything that is wrong; kUnavailable (the provider does not
/// answer).
Result<std::string> CheckRental(
    Provider* provider, const RentRequest& request, const std::vector<MachineDemand>& demands);

}  // namespace ps::provisioner
