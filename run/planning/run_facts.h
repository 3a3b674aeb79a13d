#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "provisioner/planner/plan_setup.h"
#include "ps/base/status.h"
#include "ps/proto/files/catalog.h"
#include "ps/proto/files/profile.h"
#include "ps/proto/job/job_config.h"
#include "ps/proto/messages.h"

namespace ps::run {

/// What planning anew has to know of a run.
struct RunFacts {
  double loss = 0;                           // smoothed, of training; 0: none yet
  double steps = 0;                          // minibatches counted, of all workers together
  double seconds = 0;                        // of training
  double usd = 0;                            // paid so far; 0: nobody knows
  double samples_per_s = 0;                  // of the last seconds; 0 of a run that has ended
  std::vector<provisioner::TypeCount> held;  // workers that take part, by type; none of a run that
                                             // has ended
  // The same with their ages, where these are known; a type may be there several times.
  std::vector<provisioner::TypeCount> held_by_age;
  std::vector<provisioner::TypeCount> done_by;  // the fleet that made most of the steps
  int server_hosts = 1;
  proto::ExchangeScheme scheme;  // of its steps now
  int workers_listed = 0;        // that have the job's learning rate; 0: all that there are
};

/// Facts of a run that goes on. For a type there are at most kAgesPerType ages, each the mean of
/// machines that are about as old.
RunFacts FactsOf(const proto::JobStatus& status, const proto::JobConfig& config);

inline constexpr size_t kAgesPerType = 4;

/// Facts of a run that has ended: its summary.json. Errors: kInvalidArgument with `path`.
Result<RunFacts> FactsOfEnded(
    std::string_view summary, const std::string& path, const proto::JobConfig& config);

/// How long a minibatch takes to compute in this run.
struct MeasuredStep {
  std::string instance_type;
  int minibatch = 0;
  double compute_s = 0;
  uint64_t steps = 0;  // minibatches that were measured
};

/// Steps of the workers that take part and whose type is known.
std::vector<MeasuredStep> MeasuredSteps(
    const proto::JobStatus& status, const proto::JobConfig& config);

/// Puts what was measured in the place of the profile's own figures. Returns what has changed by
/// more than a few percent, a line each.
std::vector<std::string> UseMeasured(
    const std::vector<MeasuredStep>& measured, proto::JobProfile* profile);

/// At which limits of the goal are planned to hold: no more than errors can tell.
double ConfidenceOf(const proto::GoalConfig& goal);

/// What plans take the machines of a run's servers for.
struct RunServers {
  const proto::InstanceType* type = nullptr;  // of the catalog; null: no type may hold parameters
  bool is_head = false;                       // one machine for all servers, launch.rent.head

  int HostsOf(int servers) const { return is_head ? 1 : servers; }

  /// What to say of it, since no job tells the type of machines that it does not rent.
  std::string Note() const;
};

/// The type that the job rents for them, if parameters may be on it, or else the cheapest one of
/// the catalog on which they may be; on a rented head, the one whose price is nearest to the
/// head's. The catalog has to outlive it.
RunServers ServersOf(const proto::Catalog& catalog, const proto::JobConfig& config);

/// USD of an hour of such a fleet at the lowest prices of the catalog, types that it does not have
/// left out.
double UsdPerHour(
    const proto::Catalog& catalog,
    const std::vector<provisioner::TypeCount>& workers,
    const RunServers& servers,
    int server_hosts);

/// "3 local, 2 slow"; "nobody"
std::string FleetText(const std::vector<provisioner::TypeCount>& workers);

/// As flags name them: "local=3", with an age "local=3@3600s".
std::vector<std::string> FleetFlags(const std::vector<provisioner::TypeCount>& workers);

}  // namespace ps::run
