#pragma once

#include <string>
#include <vector>

#include "provisioner/planner/planner.h"
#include "ps/proto/files/catalog.h"
#include "ps/proto/files/plan.h"

namespace ps::provisioner {

/// Lets a problem choose the zones of workers and servers together, where the catalog says what
/// traffic between them costs: offers get the places where they are sold as spot, and each type of
/// server is on offer in each zone that may be the best. What is held stays where a type is
/// cheapest, and so does a type whose machines live differently from zone to zone.
void ChooseZones(const proto::Catalog& catalog, PlanProblem* problem);

/// Lets servers be in these zones too, whatever ChooseZones thought of them: for types of which not
/// all machines can be had in the best zone. Nothing where traffic costs nothing.
void OfferServersIn(
    const proto::Catalog& catalog, const std::vector<std::string>& zones, PlanProblem* problem);

/// What of a plan's traffic its cost leaves out; none where nothing is.
std::vector<std::string> TrafficNotes(
    const proto::Catalog& catalog, const PlanProblem& problem, const proto::Plan& plan);

}  // namespace ps::provisioner
