// Best first over regions (see exact/region.h): the region with the smallest bound is walked
// through or, when that takes too long, cut in two along the range that spreads its number of steps
// most. It ends when the next bound is above the worst answer that is kept.

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <queue>

#include "provisioner/planner/exact/dive.h"
#include "provisioner/planner/exact/region.h"
#include "provisioner/planner/exact/start.h"
#include "provisioner/planner/fleet_judge.h"
#include "provisioner/planner/infeasible.h"
#include "provisioner/planner/numbers.h"
#include "provisioner/planner/problem_check.h"
#include "provisioner/planner/strategies.h"

namespace ps::provisioner {
namespace {

// Regions whose numbers of steps spread less than this are worth a longer walk.
constexpr double kUniform = 1.02;
// A cut hardly raises the bound of regions that spread less than these, so their walks may take
// this many times the nodes.
constexpr double kAlike = 1.001;
constexpr uint64_t kAlikeNodes = 40;
constexpr double kSame = 1.0005;
constexpr uint64_t kSameNodes = 200;
// Regions whose workers' speeds spread more have bounds too loose for a walk.
constexpr double kLoadUniform = 1.2;
// Regions whose numbers of steps spread more are cut without a walk, a few times.
constexpr double kWalkable = 1.1;
constexpr int kCutsUnwalked = 8;
// Part of a range of first classes that stays with the fastest. They keep the bound of the whole:
// the fewer, the better.
constexpr int kFirstCut = 8;
constexpr double kWorthACut = 1 + 1e-6;
// Cost of a region besides its walk, in nodes.
constexpr uint64_t kNodesPerRegion = 500;

// The latest frames, which regions that are pushed back or cut ask for again.
constexpr size_t kFramesKept = 1021;

struct IsLessPromising {
  bool operator()(const Region& a, const Region& b) const {
    if (a.usd_bound != b.usd_bound) {
      return a.usd_bound > b.usd_bound;
    }
    return a.workers != b.workers ? a.workers > b.workers : a.server > b.server;
  }
};

class ExactSearch {
 public:
  ExactSearch(const PlanProblem& problem, const ExactEffort& effort)
      : problem_(problem),
        effort_(effort),
        judge_(problem),
        basis_(problem, judge_),
        best_(problem.answers_max),
        dive_(basis_, &judge_, &best_, [this] { return GoesOn(); }) {}

  PlanAnswer Run() {
    ConsiderHeld();
    const std::vector<Region> regions = WholeRegions();
    if (!WholeFrameOf(0, basis_.workers_min()).is_exact) {
      FindFirstFleets(basis_, MostPromisingServers(regions), &judge_, &best_);
    }
    for (const Region& region : regions) {
      Push(region);
    }
    const bool has_all_regions = !is_stopped_;
    uint64_t explored = 0;
    for (; !open_.empty() && explored < effort_.regions_max && EffortLeft() > 0; ++explored) {
      const Region region = open_.top();
      usd_bound_ = region.usd_bound;
      if (!GoesOn()) {
        break;
      }
      open_.pop();
      if (IsOpen(region)) {
        Explore(region);
      }
      effort_spent_ += kNodesPerRegion;
    }
    PlanAnswer answer;
    answer.best = std::move(best_).Take();
    answer.fleets_evaluated = judge_.evaluated();
    answer.is_stopped = is_stopped_;
    if (!has_all_regions) {
      return answer;
    }
    if (open_.empty()) {
      answer.certainty = problem_.speed->has_proven_bounds() ? proto::Certainty::kProven
                                                             : proto::Certainty::kBoundsChecked;
    } else {
      // What is left may be worse than the best found.
      answer.usd_bound = open_.top().usd_bound;
      if (!answer.best.empty()) {
        answer.usd_bound = std::min(answer.usd_bound, answer.best.front().usd);
      }
    }
    return answer;
  }

 private:
  /// A region for each server side and number of workers with which some fleet may meet the goal.
  std::vector<Region> WholeRegions() {
    std::vector<Region> regions;
    for (int workers = basis_.workers_min(); workers <= basis_.workers_max(); ++workers) {
      for (size_t server = 0; server < basis_.servers().size() && GoesOn(); ++server) {
        if (workers > basis_.servers()[server].workers_max) {
          continue;
        }
        Region region;
        if (basis_.WholeFrame(WholeFrameOf(static_cast<int>(server), workers), &region)) {
          regions.push_back(region);
        }
      }
    }
    return regions;
  }

  /// The server sides of the regions, those with the lowest bound first.
  std::vector<int> MostPromisingServers(const std::vector<Region>& regions) const {
    std::vector<double> bounds(basis_.servers().size(), kInfinity);
    for (const Region& region : regions) {
      double& bound = bounds[static_cast<size_t>(region.server)];
      bound = std::min(bound, region.usd_bound);
    }
    std::vector<int> servers;
    for (size_t server = 0; server < bounds.size(); ++server) {
      if (bounds[server] < kInfinity || is_stopped_) {  // then not all bounds are known
        servers.push_back(static_cast<int>(server));
      }
    }
    std::ranges::sort(servers, [&](int a, int b) {
      const double bound_a = bounds[static_cast<size_t>(a)];
      const double bound_b = bounds[static_cast<size_t>(b)];
      return bound_a != bound_b ? bound_a < bound_b : a < b;
    });
    return servers;
  }

  const Frame& FrameOf(int server, int workers, const Range& load) {
    const double part = load.high > 0 ? load.low / load.high : 0;
    const size_t key = std::hash<double>()(load.high) + std::hash<double>()(part) * 31 +
                       static_cast<size_t>(workers) * 1021 + static_cast<size_t>(server);
    Frame& frame = frames_[key % frames_.size()];
    if (frame.server != server || frame.workers != workers || frame.load.low != load.low ||
        frame.load.high != load.high) {
      frame = basis_.MakeFrame(server, workers, load);
    }
    return frame;
  }

  const Frame& WholeFrameOf(int server, int workers) {
    return FrameOf(server, workers, basis_.LoadsOf(server, workers));
  }

  bool GoesOn() {
    if (problem_.watch != nullptr && !is_stopped_) {
      const std::vector<FleetChoice>& best = best_.fleets();
      is_stopped_ = !problem_.watch->GoesOn(
          {judge_.evaluated(),
           best.empty() ? std::numeric_limits<double>::infinity() : best.front().usd,
           usd_bound_});
    }
    return !is_stopped_;
  }

  /// The fleet that runs already needs no take-over, which all bounds count.
  void ConsiderHeld() {
    std::vector<int> running;
    for (size_t i = 0; i < problem_.offers.size(); ++i) {
      running.push_back(RunningOf(problem_, i));
    }
    for (const ServerChoice& server : basis_.servers()) {
      if (judge_.IsSizeAllowed(running) && judge_.Fits(running, server.offer, server.hosts)) {
        dive_.Consider(running, server);
      }
    }
  }

  /// Dearer fleets are of no interest.
  double UsdLimit() const {
    const Goal& goal = problem_.goal;
    const double budget = std::max(goal.usd_max, goal.usd_max / judge_.quantile_factor());
    return std::min(best_.usd_limit() * (1 - effort_.gap), budget);
  }

  bool IsOpen(const Region& region) const {
    const double limit = UsdLimit();
    return region.usd_bound <= limit * (1 + kSlack) &&
           (limit > 0 || region.workers <= best_.last_workers());
  }

  void Push(const Region& region) {
    if (IsOpen(region)) {
      open_.push(region);
    }
  }

  /// Raises the region's lowest load as far as the speed that its fleets need tells.
  Relaxation RelaxNarrowed(Region* region) {
    Relaxation relaxation;
    do {
      region->load.low = std::max(region->load.low, relaxation.load_least);
      region->rate_narrowed = std::max(region->rate_narrowed, relaxation.rate_needed);
      relaxation =
          basis_.Relax(FrameOf(region->server, region->workers, region->load), *region, UsdLimit());
    } while (relaxation.is_too_wide);
    if (relaxation.load_least > 0) {
      region->rate_narrowed = relaxation.rate_needed;
    }
    return relaxation;
  }

  void Explore(Region region) {
    const Relaxation relaxation = RelaxNarrowed(&region);
    if (relaxation.is_void) {
      return;
    }
    region.batch_mean.low = std::max(region.batch_mean.low, relaxation.batch_mean.low);
    region.batch_mean.high = std::min(region.batch_mean.high, relaxation.batch_mean.high);
    const Frame& frame = FrameOf(region.server, region.workers, region.load);
    if (!region.is_relaxed) {
      region.is_relaxed = true;
      region.usd_bound = std::max(region.usd_bound, relaxation.usd_bound);
      region.multipliers = relaxation.multipliers;
      if (!IsOpen(region)) {
        return;
      }
      TryCorners(frame, relaxation);
      if (!open_.empty() && region.usd_bound > open_.top().usd_bound) {
        Push(region);
        return;
      }
    }
    if (relaxation.load_effect > kLoadUniform && CanCutLoad(region, relaxation)) {
      Cut(region, relaxation);
      return;
    }
    // The largest effect of a range that a cut can narrow.
    const double effect = std::max(
        {CanCutFirst(region) ? relaxation.first_effect : 0,
         CanCutBatch(region, relaxation) ? relaxation.batch_effect : 0,
         CanCutLoad(region, relaxation) ? relaxation.load_effect : 0});
    if (effect > kWalkable && region.cuts < kCutsUnwalked) {
      Cut(region, relaxation);
      return;
    }
    uint64_t nodes_max = effort_.nodes_max_uncut;
    if (effect > kWorthACut) {
      // The more often it was cut in vain, the longer the walk, so that cuts never cost much more
      // than walking through at once.
      nodes_max = NodesOf(effect) << std::min(region.cuts / effort_.cuts_per_doubling, 20);
    }
    nodes_max = std::min(nodes_max, EffortLeft());
    if (dive_.Run(frame, region, relaxation, nodes_max)) {
      return;
    }
    if (EffortLeft() == 0 || is_stopped_) {
      open_.push(region);  // not walked through
    } else {
      Cut(region, relaxation);
    }
  }

  /// Nodes of a walk through a region that spreads so much, before a cut is better.
  uint64_t NodesOf(double effect) const {
    if (effect > kUniform) {
      return effort_.nodes_max;
    }
    if (effect > kAlike) {
      return effort_.nodes_max_uniform;
    }
    return effort_.nodes_max_uniform * (effect > kSame ? kAlikeNodes : kSameNodes);
  }

  uint64_t EffortLeft() const {
    const uint64_t spent = effort_spent_ + dive_.nodes();
    return spent < problem_.effort_max ? problem_.effort_max - spent : 0;
  }

  static bool CanCutFirst(const Region& region) { return region.first_low < region.first_high; }

  static bool CanCutBatch(const Region& region, const Relaxation& relaxation) {
    return relaxation.batch_effect > kWorthACut &&
           region.batch_mean.high > region.batch_mean.low * kWorthACut;
  }

  static bool CanCutLoad(const Region& region, const Relaxation& relaxation) {
    return relaxation.load_effect > kWorthACut && region.load.high > region.load.low * kWorthACut;
  }

  void Cut(const Region& region, const Relaxation& relaxation) {
    Region low = region;
    Region high = region;
    const double batch = CanCutBatch(region, relaxation) ? relaxation.batch_effect : 0;
    const double first = CanCutFirst(region) ? relaxation.first_effect : 0;
    const double load = CanCutLoad(region, relaxation) ? relaxation.load_effect : 0;
    if (load >= std::max(batch, first) || load > kLoadUniform) {
      const double middle = (region.load.low + region.load.high) / 2;
      low.load.high = middle;
      high.load.low = middle;
    } else if (first >= batch) {
      low.first_high = region.first_low + (region.first_high - region.first_low) / kFirstCut;
      high.first_low = low.first_high + 1;
    } else {
      const double kink = relaxation.line.kink;
      const double middle =
          kink > 0 ? kink : std::sqrt(region.batch_mean.low * region.batch_mean.high);
      low.batch_mean.high = middle;
      high.batch_mean.low = middle;
    }
    for (Region* part : {&low, &high}) {
      ++part->cuts;
      part->is_relaxed = false;
      Push(*part);
    }
  }

  /// Fleets at the edge of the relaxation are often among the best.
  void TryCorners(const Frame& frame, const Relaxation& relaxation) {
    std::vector<int> counts(problem_.offers.size(), 0);
    for (const std::vector<int>& fleet : relaxation.fleets) {
      for (size_t i = 0; i < fleet.size(); ++i) {
        counts[static_cast<size_t>(frame.slots[i].offer)] = fleet[i];
      }
      const ServerChoice& server = basis_.servers()[static_cast<size_t>(frame.server)];
      // Corners know nothing of quotas of vCPUs.
      if (judge_.ClimbsLadders(counts, server.offer) &&
          judge_.Fits(counts, server.offer, server.hosts)) {
        dive_.Consider(counts, server);
      }
    }
  }

  const PlanProblem& problem_;
  ExactEffort effort_;
  FleetJudge judge_;
  ExactBasis basis_;
  BestFleets best_;
  ExactDive dive_;
  std::vector<Frame> frames_ = std::vector<Frame>(kFramesKept);
  bool is_stopped_ = false;
  double usd_bound_ = 0;       // of the region in hand, the lowest there is
  uint64_t effort_spent_ = 0;  // on regions, besides the nodes of walks
  std::priority_queue<Region, std::vector<Region>, IsLessPromising> open_;
};

class ExactStrategy final : public Strategy {
 public:
  std::string_view name() const override { return "exact"; }

  Result<PlanAnswer> Solve(const PlanProblem& problem) const override {
    PS_TRY(CheckProblem(problem));
    PlanAnswer answer = ExactSearch(problem, {}).Run();
    if (answer.best.empty() && answer.certainty != proto::Certainty::kBestFound) {
      answer.infeasible = ExplainInfeasible(problem, name());
    } else if (answer.best.empty() && answer.is_stopped) {
      answer.infeasible = StoppedEarly();
    } else if (answer.best.empty()) {
      answer.infeasible.reason =
          "none was found, and there are too many fleets to look at all of them; loosen the goal, "
          "offer fewer types, or try another strategy";
    }
    return answer;
  }
};

}  // namespace

PlanAnswer SolveExactly(const PlanProblem& problem, const ExactEffort& effort) {
  return ExactSearch(problem, effort).Run();
}

std::unique_ptr<Strategy> MakeExactStrategy() {
  return std::make_unique<ExactStrategy>();
}

}  // namespace ps::provisioner
