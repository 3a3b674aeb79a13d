#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "provisioner/model/job_models.h"
#include "provisioner/planner/planner.h"
#include "ps/base/status.h"
#include "ps/proto/files/catalog.h"

namespace ps::provisioner {

// From a catalog and a job's models to the problem that strategies solve.

/// Which prices a plan may use. `kBoth`: for each type the lower of the two.
enum class MarketChoice : unsigned char { kSpot, kOnDemand, kBoth };

/// Instances of a type, for quotas.
struct TypeCount {
  std::string instance_type;
  int count = 0;
  int minibatch = 0;  // of workers; 0: the one that the profile has first
  double age_s = 0;   // of held machines; 0: new, or not known
};

/// How many hosts of a type may hold the parameters.
struct ServerRange {
  std::string instance_type;
  int hosts_min = 1;
  int hosts_max = 1;
};

/// vCPUs of a family in a market, instead of the catalog's.
struct FamilyQuota {
  std::string family;
  proto::Market market = proto::Market::kSpot;
  int vcpus = 0;
};

struct PlanSetup {
  MarketChoice market = MarketChoice::kSpot;
  std::vector<TypeCount> quotas;  // instead of the catalog's
  std::vector<FamilyQuota> vcpu_quotas;
  bool counts_start_up = false;  // a fleet begins when its slowest machine is up, by the catalog
  // How many on demand beside the spot machines of a type, a quota of their own. Only types with
  // one minibatch in the profile, that do not hold parameters.
  std::vector<TypeCount> on_demand_quotas;
  std::vector<TypeCount> held;        // running already, in the market of the choice
  bool may_drop_held = false;         // a plan need not keep them
  std::vector<ServerRange> servers;   // empty: every server host of the catalog, 1 to kHostsMax
  std::vector<std::string> left_out;  // server hosts that are not used, when `servers` is empty
  // What runs already fits, whatever the catalog says: held types always do, and these say it of
  // the servers and of all types.
  bool servers_run = false;
  bool all_run = false;
  Goal goal;

  static constexpr int kHostsMax = 8;
};

/// Lowest spot price of a type, and null when it is not sold as spot.
const proto::SpotPrice* LowestSpot(const proto::InstanceType& type);

/// One offer per worker class that is sold in a market of the choice, another where spot machines
/// have a quota on demand beside them, and one per type of server,
/// which is always on demand: a revoked server would stop every worker. The minibatches of a type
/// are worker classes that share its quota, and with them its use as a server. Types that don't
/// have the memory that the job takes are left out, and so are fewer servers than hold it. The
/// answer points at `models`. Errors: kInvalidArgument for types that the catalog does not have,
/// that the job has no profile for, or that may not hold parameters, for quotas below 0, and for
/// held instances that are not sold in that market; kUnsupported where memory leaves no worker, or
/// no servers.
Result<PlanProblem> MakePlanProblem(
    const proto::Catalog& catalog, const JobModels& models, const PlanSetup& setup);

/// The class that a type and minibatch of TypeCount name; -1 when there is none.
int FindClass(const SpeedModel& speed, const TypeCount& count);

/// Limits the problem's sizes as spotDNN's Algorithm 1 does: n_upper (15), beyond which workers
/// always meet at the servers, and n_lower (16), below which no fleet is fast enough. Each only
/// where the profile has the fit that it takes.
void LimitSizesAsSpotDnn(const proto::JobProfile& profile, PlanProblem* problem);

}  // namespace ps::provisioner
