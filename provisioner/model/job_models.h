#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "provisioner/model/exchange.h"
#include "provisioner/model/memory_need.h"
#include "provisioner/model/performance_model.h"
#include "provisioner/model/prediction_interval.h"
#include "ps/base/status.h"
#include "ps/proto/files/catalog.h"
#include "ps/proto/files/profile.h"

namespace ps::provisioner {

// From a catalog and a job's profile to the models that planners ask: one call for psctl.

struct JobModelOptions {
  std::string speed_model = "queue";  // or "spotdnn", "spotdnn-prototype", "ideal"
  // Which workers may be used; each needs a profile. Empty: every type of the catalog that has one.
  std::vector<std::string> instance_types = {};
  // Types that are not used, whatever the former says.
  std::vector<std::string> left_out = {};
  // Types whose step times were reckoned (provisioner/unseen), and how far off they may be.
  std::map<std::string, double> deviations = {};
  // Adds this share to predicted contention, against plans that are just in time. The spotDNN paper
  // uses 0.01 to 0.05. Used by the two of spotDNN.
  double contention_margin = 0;
  // How far the run is that is planned for; loss models predict what is left of it.
  RunProgress progress = {};
  ExchangeChange exchange = {};
  // Workers that have the run's learning rate together, where more have less of it
  // (ListedRateLossModel). 0: all have all of it.
  int workers_listed = 0;
};

struct JobModels {
  // speed->classes()[k].name is the instance type, of which there is a class for each minibatch.
  std::unique_ptr<SpeedModel> speed;
  std::unique_ptr<LossModel> loss;  // null: the profile holds no loss curve
  JobTraffic traffic;               // what `speed` was made with
  double push_bytes = 0;            // of one exchange, those that hide included
  double pull_bytes = 0;
  FleetSize measured;                     // the most of each in fleets whose speed the profile has
  std::vector<std::string> not_profiled;  // workers of the catalog that were left out
  std::vector<WorkerNeed> worker_needs;   // by class
  ServerNeed server_need;
};

/// Errors: kInvalidArgument for a model name that does not exist, and for a profile that lacks what
/// the model needs ("spotdnn" needs a fitted contention, and that of the same number of local
/// steps; "spotdnn-prototype" knows no local steps); kNotFound for a type that is not in the
/// catalog or has no profile ("no profile for g3.8xlarge: run `psctl profile` there or leave it
/// out").
Result<JobModels> BuildJobModels(
    const proto::Catalog& catalog,
    const proto::JobProfile& profile,
    const JobModelOptions& options);

/// What a step of the profiled job moves, as models count it. What overlaps with computation also
/// overlaps with the other direction, since links are full duplex: one step's push travels while
/// the last one's pull does, so that of the two only the longer one counts.
JobTraffic TrafficOf(const proto::JobProfile& profile, const ExchangeChange& change = {});

/// The rate that one worker of the job takes when alone, if the profile tells [B_req]; 0 where it
/// does not: nothing was measured, or the servers' links held the lone worker back, so that it says
/// nothing of faster ones.
double RequestBytesPerS(const proto::JobProfile& profile);

/// What plans with `hosts` hosts of a catalog's type give to SpeedModel::Predict.
ServerSide ServersOf(const proto::InstanceType& type, int hosts);

}  // namespace ps::provisioner
