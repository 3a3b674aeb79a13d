#pragma once

#include <string>
#include <utility>
#include <vector>

#include "provisioner/provider/provider.h"
#include "provisioner/rental/rental_check.h"
#include "ps/proto/job/job_config.h"

namespace ps::provisioner {

/// The most that machines cost together in US dollars an hour, each in the dearest of its pools;
/// `otherwise` is the price of one whose pools have none. 0: not known.
double WorstRate(
    const std::vector<MachineDemand>& demands,
    const std::vector<PoolPrice>& prices,
    double otherwise);

/// What a job's machines cost and how far its budget goes, as names and values of aligned lines,
/// for people, before anything is rented.
std::vector<std::pair<std::string, std::string>> DescribeRent(
    const proto::JobConfig& config, const std::vector<PoolPrice>& prices);

}  // namespace ps::provisioner
