#pragma once

#include <string>
#include <vector>

#include "provisioner/model/job_models.h"
#include "provisioner/model/memory_need.h"
#include "provisioner/planner/planner.h"
#include "provisioner/planner/server_memory.h"
#include "ps/base/status.h"
#include "ps/proto/files/catalog.h"

namespace ps::provisioner {

// Whether the machines of a catalog have the memory that a job takes, and what to say of those that
// do not. A type whose memory the catalog does not say is not left out for it.

/// Why no worker fits a machine of that type; empty when it does, or nobody knows.
std::string WhyNoWorkerFits(const proto::InstanceType& type, const WorkerNeed& need);

ServerMemory MemoryOfServer(const proto::InstanceType& type, const ServerNeed& need);

/// Why up to `hosts` such hosts do not hold the job.
std::string WhyNoServerFits(const ServerMemory& memory, int hosts);

/// Errors: kUnsupported, with how many workers the hosts have memory for.
Status CheckServerMemory(const ServerOffer& servers, int workers, int hosts);

/// What was left out of the problem, a line for workers and one for servers; none when nothing was.
std::vector<std::string> LeftOutNotes(const PlanProblem& problem);

/// The same, and what is to be known of the memory of the fleet's own machines: what the catalog or
/// the profile does not say, and that fewer servers would not do.
std::vector<std::string> MemoryNotes(
    const proto::Catalog& catalog,
    const JobModels& models,
    const PlanProblem& problem,
    const FleetChoice& choice);

}  // namespace ps::provisioner
