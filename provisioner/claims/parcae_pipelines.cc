#include "provisioner/claims/parcae_pipelines.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "provisioner/planner/numbers.h"
#include "ps/base/random.h"

namespace ps::provisioner {
namespace {

constexpr double kRendezvousMs = 6600;
constexpr double kGroupInitMs = 35;
constexpr double kCheckpointMs = 14'000;  // of the baseline, at every event
constexpr double kStateBytes = 3 * 4;     // of a parameter: itself and two moments of Adam

struct TransferPoint {
  double bytes;
  double us;
};

constexpr TransferPoint kTransfers[] = {
    {4, 142.907},
    {8, 139.679},
    {16, 143.102},
    {32, 139.210},
    {64, 143.954},
    {128, 140.836},
    {256, 141.442},
    {512, 144.788},
    {1024, 137.372},
    {2048, 140.417},
    {4096, 141.651},
    {8192, 145.364},
    {16384, 154.935},
    {32768, 162.665},
    {65536, 194.492},
    {131072, 230.588},
    {262144, 385.104},
    {524288, 689.821},
    {1048576, 1428.108},
    {2097152, 3006.771},
    {4194304, 5182.599},
    {8388608, 9727.047},
    {16777216, 18622.294},
    {33554432, 38560.219},
    {67108864, 74432.216},
    {134217728, 153550.589},
    {268435456, 305811.282},
    {536870912, 601380.752},
    {1073741824, 1198255.900}};

/// Layers of each stage as [begin, end), as Parcae cuts a model.
std::vector<int> CutLayers(int layers, int stages) {
  if (stages == 0) {
    return {0, layers};
  }
  std::vector<int> sizes(static_cast<size_t>(stages), (layers - 1) / stages);
  ++sizes.front();
  for (int i = 0; i < (layers - 1) % stages; ++i) {
    ++sizes[static_cast<size_t>(stages - i - 2 + (stages - i - 2 < 0 ? stages : 0))];
  }
  std::vector<int> cuts = {0};
  for (const int size : sizes) {
    cuts.push_back(cuts.back() + size);
  }
  return cuts;
}

double SamplesPerSecond(const ParcaeModel& model, const ParcaePlan& plan) {
  const auto found = model.samples_per_s.find(plan);
  return found == model.samples_per_s.end() ? 0 : found->second;
}

double GroupMs(const ParcaeModel& model, const ParcaePlan& plan, bool is_adding) {
  const double each_ms = is_adding ? model.group_add_ms : model.group_remove_ms;
  switch (model.groups) {
    case ParcaeGroups::kByCount:
      return kGroupInitMs + each_ms * (plan.pipelines + plan.stages + 1 + plan.machines());
    case ParcaeGroups::kByMachine:
      return kGroupInitMs + each_ms * plan.machines();
    case ParcaeGroups::kByPipelines:
      break;
  }
  const double ms = plan.pipelines >= 12 ? 2000 : (plan.pipelines >= 6 ? 1500 : 1000);
  return kGroupInitMs + ms * (is_adding ? 1.5 : 1);
}

/// Machines of a plan after some of them went, by stage: which pipelines still have it.
struct Survivors {
  ParcaePlan plan;
  std::vector<std::vector<int>> of_stage;  // pipelines, ascending
};

Survivors WithoutVictims(const ParcaePlan& plan, const std::vector<int>& victims) {
  Survivors survivors = {plan, std::vector<std::vector<int>>(static_cast<size_t>(plan.stages))};
  for (int machine = 0; machine < plan.machines(); ++machine) {
    if (std::ranges::find(victims, machine) == victims.end()) {
      survivors.of_stage[static_cast<size_t>(machine % plan.stages)].push_back(
          machine / plan.stages);
    }
  }
  return survivors;
}

/// Sums over the layers of a model.
class LayerSums {
 public:
  explicit LayerSums(const std::vector<double>& params) : sums_(1, 0) {
    for (const double layer : params) {
      sums_.push_back(sums_.back() + layer);
    }
  }

  double Between(int begin, int end) const {
    return end > begin ? sums_[static_cast<size_t>(end)] - sums_[static_cast<size_t>(begin)] : 0;
  }

  int layers() const { return static_cast<int>(sums_.size()) - 1; }

 private:
  std::vector<double> sums_;
};

/// Parameters that the last stage of a new partition has to fetch, as the program counts it: each
/// stage in turn takes the machine that lacks least, and only the last one's lack is kept.
double LastStageLack(
    const LayerSums& sums,
    const Survivors& survivors,
    const std::vector<int>& old_cuts,
    const std::vector<int>& cuts) {
  std::vector<size_t> taken(survivors.of_stage.size(), 0);
  double lack = 0;
  for (size_t stage = 0; stage + 1 < cuts.size(); ++stage) {
    size_t best = taken.size();
    double best_lack = kInfinity;
    int best_machine = 0;
    for (size_t old = 0; old < taken.size(); ++old) {
      if (taken[old] == survivors.of_stage[old].size()) {
        continue;
      }
      const int begin = std::max(cuts[stage], old_cuts[old]);
      const int end = std::min(cuts[stage + 1], old_cuts[old + 1]);
      const double missing = sums.Between(cuts[stage], cuts[stage + 1]) - sums.Between(begin, end);
      const int machine =
          survivors.of_stage[old][taken[old]] * survivors.plan.stages + static_cast<int>(old);
      if (missing < best_lack || (missing == best_lack && machine < best_machine)) {
        best = old;
        best_lack = missing;
        best_machine = machine;
      }
    }
    if (best < taken.size()) {
      ++taken[best];
      lack = best_lack;
    }
  }
  return lack;
}

/// To send the state of each stage.
std::vector<double> StageMs(const LayerSums& sums, int stages) {
  const std::vector<int> cuts = CutLayers(sums.layers(), stages);
  std::vector<double> ms;
  for (size_t stage = 0; stage + 1 < cuts.size(); ++stage) {
    ms.push_back(ParcaeTransferMs(sums.Between(cuts[stage], cuts[stage + 1]) * kStateBytes));
  }
  return ms;
}

/// Keeps the depth: within a stage if every stage has replicas enough, else between stages.
double SameDepthMs(
    const ParcaeModel& model,
    const std::vector<double>& stage_ms,
    const Survivors& survivors,
    const ParcaePlan& target,
    const ParcaeEvent& event) {
  if (event.removed == 0 && target == survivors.plan) {
    return 0;
  }
  double longest_ms = 0;
  double lost_ms = 0;  // stages without a replica come from one place, one after the other
  bool is_short = false;
  for (int stage = 0; stage < target.stages; ++stage) {
    const auto index = static_cast<size_t>(stage);
    const int needed =
        std::max(0, target.pipelines - static_cast<int>(survivors.of_stage[index].size()));
    if (needed == 0) {
      continue;
    }
    is_short = true;
    const double ms = stage_ms[index];
    const bool is_last = stage == target.stages - 1;
    if (needed == target.pipelines || (is_last && needed == target.pipelines - 1)) {
      lost_ms += ms;
    }
    longest_ms = std::max(longest_ms, ms);
  }
  if (!is_short) {
    return GroupMs(model, target, false) + model.process_ms;
  }
  const bool is_adding = target.machines() > survivors.plan.machines() - event.removed;
  return std::max(longest_ms, lost_ms) + ParcaeRestartMs(model, target, is_adding);
}

/// Draws `removed` of `machines`, `draws` times: how often which of the first `plan_machines` are
/// among them, ascending. The others are spares, which no plan's cost knows. Sets of few of 32
/// machines come again and again, so each is to be looked at once.
std::map<std::vector<int>, int> DrawVictims(
    int machines, int plan_machines, int removed, int draws, uint64_t seed) {
  Random random(seed);
  std::map<std::vector<int>, int> drawn;
  for (int draw = 0; draw < draws; ++draw) {
    std::vector<int> all(static_cast<size_t>(machines));
    std::iota(all.begin(), all.end(), 0);
    for (int i = 0; i < removed; ++i) {
      const auto other = i + static_cast<int>(random.Below(static_cast<uint64_t>(machines - i)));
      std::swap(all[static_cast<size_t>(i)], all[static_cast<size_t>(other)]);
    }
    all.resize(static_cast<size_t>(removed));
    std::erase_if(all, [&](int machine) { return machine >= plan_machines; });
    std::ranges::sort(all);
    ++drawn[std::move(all)];
  }
  return drawn;
}

/// What targets with the same number of stages have in common.
struct Depth {
  std::vector<int> cuts;
  std::vector<double> stage_ms;
  double longest_ms = 0;  // of a stage
  double lack_ms = 0;     // the mean, to fetch what the new partition lacks
};

}  // namespace

double LiveputOf(const ParcaePlan& plan, int lost, std::span<const double> samples_per_s) {
  // Chance that a number of pipelines is whole: ways to spread the losses over the others, each
  // hit.
  const auto choose = [](int n, int k) {
    double ways = k < 0 || k > n ? 0 : 1;
    for (int i = 1; i <= k && ways > 0; ++i) {
      ways *= static_cast<double>(n - k + i) / i;
    }
    return ways;
  };
  const double all = choose(plan.machines(), lost);
  double liveput = 0;
  for (int hit = 0; hit <= std::min(lost, plan.pipelines); ++hit) {
    double ways = 0;  // that exactly these are hit: inclusion and exclusion
    for (int spared = 0; spared <= hit; ++spared) {
      const double sign = spared % 2 == 0 ? 1 : -1;
      ways += sign * choose(hit, spared) * choose((hit - spared) * plan.stages, lost);
    }
    liveput += choose(plan.pipelines, hit) * ways / all *
               samples_per_s[static_cast<size_t>(plan.pipelines - hit)];
  }
  return liveput;
}

double ParcaeTransferMs(double bytes) {
  const auto* const next = std::ranges::lower_bound(kTransfers, bytes, {}, &TransferPoint::bytes);
  if (next == std::begin(kTransfers)) {
    return next->us / 1000;
  }
  const TransferPoint& from = *std::prev(next);
  if (next == std::end(kTransfers)) {
    return bytes / from.bytes * from.us / 1000;
  }
  const double share = (bytes - from.bytes) / (next->bytes - from.bytes);
  return (from.us + share * (next->us - from.us)) / 1000;
}

double ParcaeRestartMs(const ParcaeModel& model, const ParcaePlan& plan, bool is_adding) {
  const auto build = model.build_ms.find(plan.stages);
  return (is_adding ? kRendezvousMs + model.extra_ms : 0) + GroupMs(model, plan, is_adding) +
         model.process_ms + (build == model.build_ms.end() ? 0 : build->second);
}

double ParcaeCheckpointRestartMs(
    const ParcaeModel& model, const ParcaePlan& plan, bool is_adding, bool is_first) {
  double read_ms = 0;
  for (const double stage_ms : StageMs(LayerSums(model.layer_params), plan.stages)) {
    read_ms += stage_ms;
  }
  return ParcaeRestartMs(model, plan, is_adding) + (is_first ? 0 : kCheckpointMs) + read_ms;
}

const std::vector<ParcaeCosts::Target>& ParcaeCosts::From(
    int machines, const ParcaePlan& plan, const ParcaeEvent& event) {
  const auto [known, is_new] = known_.try_emplace({machines, plan, event});
  if (is_new) {
    known->second = Draw(machines, plan, event);
  }
  return known->second;
}

std::vector<ParcaeCosts::Target> ParcaeCosts::Draw(
    int machines, const ParcaePlan& plan, const ParcaeEvent& event) const {
  const int after = machines + event.added - event.removed;
  std::vector<Target> targets;
  for (int pipelines = model_.pipelines_min; pipelines <= after; ++pipelines) {
    for (const int stages : model_.stages) {
      if (pipelines * stages <= after) {
        const ParcaePlan target = {pipelines, stages};
        targets.push_back({target, 0, SamplesPerSecond(model_, target)});
      }
    }
  }
  const LayerSums sums(model_.layer_params);
  std::map<int, Depth> depths;  // by stages
  for (const Target& target : targets) {
    const auto [known, is_new] = depths.try_emplace(target.plan.stages);
    if (is_new) {
      Depth& depth = known->second;
      depth.cuts = CutLayers(sums.layers(), target.plan.stages);
      depth.stage_ms = StageMs(sums, target.plan.stages);
      depth.longest_ms = std::ranges::max(depth.stage_ms);
    }
  }
  const std::vector<int> old_cuts = CutLayers(sums.layers(), plan.stages);
  const int draws = event.removed == 0 ? 1 : draws_;
  for (const auto& [victims, times] :
       DrawVictims(machines, plan.machines(), event.removed, draws, seed_)) {
    const Survivors survivors = WithoutVictims(plan, victims);
    const double share = static_cast<double>(times) / draws;
    for (auto& [stages, depth] : depths) {
      if (stages != plan.stages) {
        const double lack = LastStageLack(sums, survivors, old_cuts, depth.cuts);
        depth.lack_ms += share * ParcaeTransferMs(lack * kStateBytes);
      }
    }
    for (Target& target : targets) {
      if (target.plan.stages == plan.stages) {
        target.cost_ms +=
            share *
            SameDepthMs(model_, depths.at(plan.stages).stage_ms, survivors, target.plan, event);
      }
    }
  }
  for (Target& target : targets) {
    if (target.plan.stages != plan.stages) {
      const Depth& depth = depths.at(target.plan.stages);
      const bool is_adding = target.plan.machines() > plan.machines() - event.removed;
      target.cost_ms = depth.lack_ms + (target.plan.pipelines > 1 ? depth.longest_ms : 0) +
                       ParcaeRestartMs(model_, target.plan, is_adding);
    }
  }
  return targets;
}

namespace {

/// A state of the search: a plan that trains, or one that its migration has yet to reach.
struct SearchState {
  ParcaePlan plan;
  bool is_migrating = false;
  double samples = 0;
  double left_ms = 0;  // of the migration
  size_t previous = 0;
};

/// The states of an interval, in the order in which they were found.
class SearchLayer {
 public:
  /// Keeps the better one of a plan; among equals the predecessor with fewer stages.
  void Offer(const SearchState& state, int previous_stages) {
    size_t& place = PlaceOf(state.plan, state.is_migrating);
    if (place == 0) {
      states_.push_back(state);
      previous_stages_.push_back(previous_stages);
      place = states_.size();
      return;
    }
    SearchState& known = states_[place - 1];
    int& known_stages = previous_stages_[place - 1];
    const bool is_equal = state.samples == known.samples;
    const bool is_better = state.samples > known.samples ||
                           (is_equal && (state.is_migrating ? state.left_ms < known.left_ms
                                                            : previous_stages < known_stages));
    if (is_better) {
      known = state;
      known_stages = previous_stages;
    }
  }

  const std::vector<SearchState>& states() const { return states_; }

 private:
  size_t& PlaceOf(const ParcaePlan& plan, bool is_migrating) {
    const auto pipelines = static_cast<size_t>(plan.pipelines);
    const auto place = static_cast<size_t>(2 * plan.stages + (is_migrating ? 1 : 0));
    places_.resize(std::max(places_.size(), pipelines + 1));
    places_[pipelines].resize(std::max(places_[pipelines].size(), place + 1));
    return places_[pipelines][place];
  }

  std::vector<SearchState> states_;
  std::vector<int> previous_stages_;
  // By pipelines, then by stages and whether the migration is under way: one more than the index of
  // the state; 0: there is none.
  std::vector<std::vector<size_t>> places_;
};

}  // namespace

ParcaeStep LookAhead(
    ParcaeCosts* costs,
    const ParcaeState& state,
    std::span<const ParcaeEvent> events,
    double interval_s) {
  const ParcaeModel& model = costs->model();
  std::vector<SearchLayer> layers(events.size() + 1);
  layers[0].Offer({state.plan, state.left_ms > 0, 0, state.left_ms, 0}, 0);
  int machines = state.machines;
  for (size_t i = 0; i < events.size(); ++i) {
    const std::vector<SearchState>& froms = layers[i].states();
    for (size_t from = 0; from < froms.size(); ++from) {
      for (const ParcaeCosts::Target& target : costs->From(machines, froms[from].plan, events[i])) {
        double cost_ms = target.cost_ms;
        if (froms[from].is_migrating) {
          cost_ms = cost_ms > 0 ? cost_ms + ParcaeRestartMs(model, target.plan, false)
                                : froms[from].left_ms;
        }
        const double work_s = interval_s - cost_ms / 1000;
        SearchState next = {target.plan, work_s < 0, froms[from].samples, 0, from};
        if (work_s >= 0) {
          next.samples += target.samples_per_s * work_s;
        } else {
          next.left_ms = -work_s * 1000;
        }
        layers[i + 1].Offer(next, froms[from].plan.stages);
      }
    }
    machines += events[i].added - events[i].removed;
  }
  size_t best = 0;
  const std::vector<SearchState>& last = layers.back().states();
  for (size_t i = 1; i < last.size(); ++i) {
    if (last[i].samples > last[best].samples ||
        (last[i].samples == last[best].samples && last[i].left_ms < last[best].left_ms)) {
      best = i;
    }
  }
  if (last.empty()) {
    return {state.plan, 0};  // no plan fits: wait
  }
  for (size_t i = events.size(); i > 1; --i) {
    best = layers[i].states()[best].previous;
  }
  ParcaeStep step = {layers[1].states()[best].plan, 0};
  for (const ParcaeCosts::Target& target : costs->From(state.machines, state.plan, events[0])) {
    step.cost_ms = target.plan == step.plan ? target.cost_ms : step.cost_ms;
  }
  return step;
}

double TakeStep(
    const ParcaeModel& model,
    const ParcaeStep& step,
    const ParcaeEvent& event,
    double interval_s,
    ParcaeState* state) {
  if (step.cost_ms > 0) {
    const bool is_under_way = state->left_ms > 0;
    state->left_ms = step.cost_ms +
                     (is_under_way ? ParcaeRestartMs(model, step.plan, step.is_restart_adding) : 0);
  }
  const double work_s = interval_s - state->left_ms / 1000;
  state->left_ms = std::max(0.0, -work_s * 1000);
  state->plan = step.plan;
  state->machines += event.added - event.removed;
  return SamplesPerSecond(model, step.plan) * std::max(0.0, work_s);
}

}  // namespace ps::provisioner
