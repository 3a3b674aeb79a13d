#include "provisioner/simulator/simulation_result.h"

#include <algorithm>

namespace ps::provisioner {

void SimulationBook::Pass(double seconds, const SimulatedFleet& fleet, double samples) {
  const uint32_t held = fleet.spot + fleet.on_demand;
  const double egress_usd = samples * job_.egress_usd_per_sample;
  result.egress_usd += egress_usd;
  result.samples_ideal +=
      seconds * job_.samples_per_s[std::min(fleet.available, job_.workers_max())];
  result.working_node_s += seconds * fleet.working;
  result.idle_node_s += seconds * (held - std::min(held, fleet.working));
  result.usd += seconds / 3600 *
                    (fleet.spot * spot_usd_per_hour_ +
                     fleet.on_demand * job_.on_demand_usd_per_hour + job_.servers_usd_per_hour) +
                egress_usd;
}

void SimulationBook::Note(double at_s, const SimulatedFleet& fleet, double samples) {
  result.points.push_back({at_s, fleet.available, fleet.working, samples, result.samples_ideal});
}

}  // namespace ps::provisioner
