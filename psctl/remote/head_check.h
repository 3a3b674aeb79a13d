#pragma once

#include "provisioner/provider/provider.h"
#include "provisioner/rental/head_machine.h"
#include "ps/base/status.h"
#include "ps/proto/job/job_config.h"
#include "run/report/console.h"

namespace ps::psctl {

// What is looked at before a head is rented.

/// Whether the job has what a head needs. Errors: kInvalidArgument, with the field to set.
Status CheckHeadJob(const proto::JobConfig& config);

/// What the head costs an hour: as the provider says, else as the job does; 0: not known.
double HeadRate(provisioner::Provider* provider, const provisioner::HeadMachine::Options& head);

/// Whether head and workers can be rented, by what the provider says; tells what they will cost.
/// `head`: without a token. Returns HeadRate. Errors: those of provisioner::CheckRental;
/// kInvalidArgument (more than the budget, or a budget and a head whose price nobody tells).
Result<double> LookAtProvider(
    const proto::JobConfig& config,
    provisioner::Provider* provider,
    const provisioner::HeadMachine::Options& head,
    const run::Console& console);

}  // namespace ps::psctl
