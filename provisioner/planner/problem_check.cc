#include "provisioner/planner/problem_check.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "provisioner/planner/fleet_judge.h"
#include "provisioner/planner/vcpu_room.h"
#include "ps/base/check.h"

namespace ps::provisioner {
namespace {

bool IsPositive(double value) {
  return std::isfinite(value) && value > 0;
}

/// A limit: positive, infinity for none.
bool IsLimit(double value) {
  return value > 0 && !std::isnan(value);
}

Status CheckGoal(const Goal& goal) {
  if (!IsPositive(goal.loss)) {
    return Status::InvalidArgument("the loss to reach has to be a positive number");
  }
  if (!IsLimit(goal.seconds_max)) {
    return Status::InvalidArgument("the time limit has to be positive");
  }
  if (!IsLimit(goal.usd_max)) {
    return Status::InvalidArgument("the budget has to be positive");
  }
  if (!IsLimit(goal.usd_per_hour_max)) {
    return Status::InvalidArgument("the limit of the price of an hour has to be positive");
  }
  if (!(goal.confidence > 0 && goal.confidence < 1)) {
    return Status::InvalidArgument("the confidence has to lie between 0 and 1");
  }
  if (!(std::isfinite(goal.takeover_s) && goal.takeover_s >= 0)) {
    return Status::InvalidArgument("the take-over time must not be negative");
  }
  return Status::Ok();
}

/// A fleet that need not be kept is one that could be.
Status CheckRuns(const PlanProblem& problem) {
  PS_CHECK(problem.runs.empty() || problem.runs.size() == problem.offers.size());
  for (size_t i = 0; i < problem.runs.size(); ++i) {
    const Offer& offer = problem.offers[i];
    PS_CHECK(offer.held == 0) << "kept, and not";
    if (problem.runs[i] < 0 || problem.runs[i] > offer.quota) {
      return Status::InvalidArgument(fmt::format(
          "{}: {} run, beyond its quota of {}",
          problem.speed->classes()[static_cast<size_t>(offer.worker_class)].name,
          problem.runs[i],
          offer.quota));
    }
  }
  return Status::Ok();
}

Status CheckOffers(const PlanProblem& problem) {
  const auto& classes = problem.speed->classes();
  std::vector<int> offers_of(classes.size(), 0);
  std::vector<bool> is_pooled(classes.size(), false);
  std::vector<int> held(problem.pools.size(), 0);
  for (const Offer& offer : problem.offers) {
    if (offer.worker_class < 0 || static_cast<size_t>(offer.worker_class) >= classes.size()) {
      return Status::InvalidArgument(
          "an offer is of a worker class that the speed model does not have");
    }
    const std::string& name = classes[static_cast<size_t>(offer.worker_class)].name;
    if (!(std::isfinite(offer.usd_per_hour) && offer.usd_per_hour >= 0)) {
      return Status::InvalidArgument(fmt::format("{}: the price must not be negative", name));
    }
    if (offer.quota < 0 || offer.held < 0) {
      return Status::InvalidArgument(
          fmt::format("{}: quota and held instances must not be negative", name));
    }
    if (!(std::isfinite(offer.start_up_s) && offer.start_up_s >= 0)) {
      return Status::InvalidArgument(fmt::format("{}: its start must not be negative", name));
    }
    for (const OfferPlace& place : offer.places) {
      PS_CHECK(place.zone < static_cast<int>(problem.zones.size())) << name;
      PS_CHECK(place.usd_per_hour >= offer.usd_per_hour) << name << " has a cheaper place";
    }
    if (offer.held > offer.quota) {
      return Status::InvalidArgument(
          fmt::format("{}: {} are held, beyond its quota of {}", name, offer.held, offer.quota));
    }
    const auto k = static_cast<size_t>(offer.worker_class);
    is_pooled[k] = is_pooled[k] || offer.pool >= 0;
    PS_CHECK(offer.pool < static_cast<int>(problem.pools.size())) << name;
    ++offers_of[k];
    PS_CHECK(offers_of[k] == 1 || !is_pooled[k]) << name << " has a pool and two offers";
  }
  for (const Offer& offer : problem.offers) {
    if (offer.pool >= 0) {
      const auto pool = static_cast<size_t>(offer.pool);
      held[pool] += offer.held;
      if (held[pool] > problem.pools[pool].quota) {
        return Status::InvalidArgument(fmt::format(
            "{}: {} are held, beyond its quota of {}",
            classes[static_cast<size_t>(offer.worker_class)].name,
            held[pool],
            problem.pools[pool].quota));
      }
    }
  }
  const int64_t workers = MostWorkers(problem);
  if (problem.offers.empty()) {
    return Status::InvalidArgument("nothing is on offer: no instance type can work on this job");
  }
  if (workers == 0) {
    return Status::InvalidArgument("the quota of every instance type is 0: raise one of them");
  }
  constexpr int64_t kWorkersMax = 100'000;
  if (workers > kWorkersMax) {
    return Status::InvalidArgument(fmt::format(
        "the quotas add up to {} workers; at most {} can be planned", workers, kWorkersMax));
  }
  return Status::Ok();
}

Status CheckServers(const PlanProblem& problem) {
  const std::vector<ServerOffer>& servers = problem.servers;
  if (servers.empty()) {
    return Status::InvalidArgument("no instance type may hold parameters: a plan needs a server");
  }
  for (const ServerOffer& server : servers) {
    if (server.hosts_min < 1 || server.hosts_max < server.hosts_min) {
      return Status::InvalidArgument(fmt::format(
          "{}: the number of servers has to be a range from 1 up", server.instance_type));
    }
    if (!IsPositive(server.link_bytes_per_s)) {
      return Status::InvalidArgument(
          fmt::format("{}: its network has no bandwidth", server.instance_type));
    }
    if (!(std::isfinite(server.usd_per_hour) && server.usd_per_hour >= 0)) {
      return Status::InvalidArgument(
          fmt::format("{}: the price must not be negative", server.instance_type));
    }
  }
  int held = 0;
  for (const Offer& offer : problem.offers) {
    held += offer.held;
  }
  int workers_max = 0;  // of servers that quotas leave room for
  bool has_room = false;
  for (size_t i = 0; i < servers.size(); ++i) {
    for (int hosts = servers[i].hosts_min; hosts <= servers[i].hosts_max; ++hosts) {
      const std::vector<int> room = RoomBeside(problem, static_cast<int>(i), hosts);
      if (std::ranges::any_of(room, [](int left) { return left < 0; }) ||
          !VcpuRoom(problem, static_cast<int>(i), hosts).IsEnough()) {
        break;
      }
      has_room = true;
      workers_max = std::max(workers_max, servers[i].memory.WorkersMax(hosts));
    }
  }
  if (!has_room) {
    return Status::InvalidArgument(fmt::format(
        "{}: the quota of a type that holds parameters and works is one, as is that of a family's "
        "vCPUs, and what is held leaves none of it for servers",
        servers.front().instance_type));
  }
  const int workers_min = std::max({held, problem.workers_min, 1});
  if (workers_max < workers_min) {
    return Status::InvalidArgument(fmt::format(
        "the servers on offer have memory for the gradients of {} workers, and {} are held or "
        "asked for: allow more servers, or types with more memory",
        workers_max,
        workers_min));
  }
  return Status::Ok();
}

}  // namespace

Status CheckProblem(const PlanProblem& problem) {
  PS_CHECK(problem.speed != nullptr && problem.loss != nullptr);
  if (problem.workers_max < std::max(problem.workers_min, 1)) {
    return Status::InvalidArgument("the most workers are fewer than the least");
  }
  if (problem.answers_max < 1) {
    return Status::InvalidArgument("at least one plan has to be asked for");
  }
  PS_TRY(CheckGoal(problem.goal));
  PS_TRY(CheckOffers(problem));
  PS_TRY(CheckRuns(problem));
  return CheckServers(problem);
}

}  // namespace ps::provisioner
