#pragma once

#include <string>

#include "ps/base/status.h"
#include "run/planning/plan_request.h"
#include "run/planning/planning.h"
#include "run/planning/prepared_job.h"

namespace ps::run {

/// Planning::scheme: the command's, or else the job's own. Errors: kInvalidArgument.
Status ChooseScheme(const PlanningCommand& command, Planning* planning);

/// What the processes of the job take on the catalog's machines, by its model and with the exchange
/// that is planned for, instead of what the profile says. Errors: kInvalidArgument (the job has no
/// room for so many local steps).
Status UseMemory(const PreparedJob& job, Planning* planning);

/// Local steps and bytes of what is planned for, what they cost in samples to a loss, and notes on
/// what of that nobody measured. Requires: ChooseScheme. Errors: kInvalidArgument.
Status UseExchange(const PlanningCommand& command, Planning* planning);

/// What is said of flags with figures that are none.
std::string LocalStepsWanted(const std::string& flag);
std::string PushFactorWanted();

}  // namespace ps::run
