#pragma once

#include <optional>
#include <string>
#include <vector>

#include "provisioner/planner/plan_setup.h"
#include "provisioner/planner/planner.h"
#include "ps/base/status.h"
#include "ps/proto/files/catalog.h"
#include "ps/proto/files/plan.h"

namespace ps::provisioner {

// Quotas as providers count them: the vCPUs of a family of types together, spot and on demand
// apart.

/// The count that is given of a type; nothing when none is.
std::optional<int> CountOf(const std::vector<TypeCount>& counts, const std::string& type);

/// Machines of a type that a plan may take: what the setup says, else the catalog; a guess limits
/// nothing where the vCPUs of the family are known.
int QuotaOf(
    const proto::Catalog& catalog,
    const PlanSetup& setup,
    const proto::InstanceType& type,
    proto::Market market);

/// Limits offers and servers of the families whose vCPUs the setup or else the catalog tells.
/// Errors: kInvalidArgument for a family that no type is of, and for types of one without vCPUs.
Status AddVcpuQuotas(const proto::Catalog& catalog, const PlanSetup& setup, PlanProblem* problem);

/// Which quotas of the plan's machines are guesses, what it takes of them as the provider counts,
/// and what of the servers' processors is not known.
std::vector<std::string> QuotaNotes(
    const proto::Catalog& catalog, const PlanSetup& setup, const proto::Plan& plan);

}  // namespace ps::provisioner
