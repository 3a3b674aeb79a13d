#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace ps::provisioner {

// Parcae: liveput, the costs of its migrations, and its look-ahead optimizer. Duan et al., "Parcae:
// Proactive, Liveput-Optimized DNN Training on Preemptible Instances" (NSDI 2024), with what its
// released program computes where the paper leaves it open. It trains pipelines of equal length in
// step, so that every change stops all machines; a parameter server has none of these costs.

/// `pipelines` pipelines of `stages` stages each, a machine for each stage.
struct ParcaePlan {
  int pipelines = 0;
  int stages = 0;

  int machines() const { return pipelines * stages; }

  friend auto operator<=>(const ParcaePlan&, const ParcaePlan&) = default;
};

/// Pipelines that stay whole when `lost` machines of the plan go: the mean of their number over all
/// equally likely choices of machines, mapped by `samples_per_s` of whole pipelines (index: their
/// number). Definition 1 of the paper, without moves between stages.
double LiveputOf(const ParcaePlan& plan, int lost, std::span<const double> samples_per_s);

/// What building communication groups costs.
enum class ParcaeGroups : unsigned char { kByCount, kByMachine, kByPipelines };

/// A model as its authors measured it. Times in ms.
struct ParcaeModel {
  std::vector<double> layer_params;
  std::map<ParcaePlan, double> samples_per_s;  // plans that are missing train nothing
  std::map<int, double> build_ms;              // by stages
  double process_ms = 30;
  double extra_ms = 0;  // of adding machines, beyond the rendezvous
  ParcaeGroups groups = ParcaeGroups::kByPipelines;
  double group_add_ms = 0;     // of a group or machine
  double group_remove_ms = 0;  // the same
  std::vector<int> stages;     // that may be used
  int pipelines_min = 1;
};

/// Sending `bytes` from one machine to another, over 10 Gbit/s as measured.
double ParcaeTransferMs(double bytes);
/// Starting anew with a plan, with machines more or not.
double ParcaeRestartMs(const ParcaeModel& model, const ParcaePlan& plan, bool is_adding);

/// The restart of its baseline "throughput-optimised", which has no migrations: at every event but
/// the first a checkpoint is written, all start anew with the plan, and its stages are read one
/// after the other. `is_first`: nobody has trained yet.
double ParcaeCheckpointRestartMs(
    const ParcaeModel& model, const ParcaePlan& plan, bool is_adding, bool is_first);

/// An interval's event: machines that come or go.
struct ParcaeEvent {
  int added = 0;
  int removed = 0;

  friend auto operator<=>(const ParcaeEvent&, const ParcaeEvent&) = default;
};

/// Expected costs of going from a plan to others, by drawing which machines go; they are kept.
class ParcaeCosts {
 public:
  /// `draws` of each event, from `seed`.
  ParcaeCosts(const ParcaeModel& model, int draws, uint64_t seed)
      : model_(model), draws_(draws), seed_(seed) {}

  struct Target {
    ParcaePlan plan;
    double cost_ms = 0;
    double samples_per_s = 0;  // of the plan
  };

  /// All plans that fit the machines after the event. `machines`: before it.
  const std::vector<Target>& From(int machines, const ParcaePlan& plan, const ParcaeEvent& event);

  const ParcaeModel& model() const { return model_; }

 private:
  std::vector<Target> Draw(int machines, const ParcaePlan& plan, const ParcaeEvent& event) const;

  const ParcaeModel& model_;
  const int draws_;
  const uint64_t seed_;
  std::map<std::tuple<int, ParcaePlan, ParcaeEvent>, std::vector<Target>> known_;
};

/// Where training stands at the begin of an interval.
struct ParcaeState {
  int machines = 0;
  ParcaePlan plan;
  double left_ms = 0;  // of a migration that is under way
};

struct ParcaeStep {
  ParcaePlan plan;
  double cost_ms = 0;  // of the migration to it
  // Whether machines are added by the restart that is paid again when this step comes before the
  // last one is over.
  bool is_restart_adding = false;
};

/// The first step of the sequence of plans that commits most samples over the events, one of each
/// interval of `interval_s`. Requires: `events` is not empty.
ParcaeStep LookAhead(
    ParcaeCosts* costs,
    const ParcaeState& state,
    std::span<const ParcaeEvent> events,
    double interval_s);

/// Takes the step and the event; returns the samples of the interval.
double TakeStep(
    const ParcaeModel& model,
    const ParcaeStep& step,
    const ParcaeEvent& event,
    double interval_s,
    ParcaeState* state);

}  // namespace ps::provisioner
