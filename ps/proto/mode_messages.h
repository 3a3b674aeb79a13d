#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ps/codec/encoding.h"
#include "ps/proto/job/job_config.h"

namespace ps::proto {

// How a job trains, and what people change of it while it does.

/// How old the parameters of a step may be.
struct ModeChoice {
  Mode mode = Mode::kAsync;
  uint32_t staleness_max = 0;  // ssp; else 0

  friend bool operator==(const ModeChoice&, const ModeChoice&) = default;
};

/// "async", "ssp:3", "bsp".
std::string ModeText(const ModeChoice& mode);

/// The mode of a run was changed.
struct ModeSwitch {
  ModeChoice to;
  double at_s = 0;         // since training began
  uint64_t samples = 0;    // that were counted then
  bool is_policy = false;  // train.mode_policy asked for it, else a person

  friend bool operator==(const ModeSwitch&, const ModeSwitch&) = default;
};

struct ModesStatus {
  ModeChoice in_force;
  ModeChoice wanted;
  bool is_switching = false;         // train leases wait until everybody knows the new mode
  std::vector<ModeSwitch> switches;  // the last ones
};

/// What of a job's steps may change while it trains. Every lease has those of its steps.
struct StepSettings {
  codec::Encoding push{};    // of gradients that the optimizer takes
  codec::Encoding pull{};    // of values to train with
  bool has_feedback = true;  // a worker keeps what encoding has lost of its gradients
  uint32_t local_steps = 1;  // minibatches of a step; above 1 they are the worker's own
  bool is_by_speed = false;  // slow workers make fewer of them

  friend bool operator==(const StepSettings&, const StepSettings&) = default;
};

/// "exchange.push=int8, train.local_steps=100": in what `to` differs from `from`, as psctl set
/// takes it.
std::string StepSettingsText(const StepSettings& to, const StepSettings& from);

/// What is chosen while the job trains, by the links and the workers that are measured.
struct AutoSettings {
  bool push = false;
  bool local_steps = false;

  friend bool operator==(const AutoSettings&, const AutoSettings&) = default;
};

struct StepsStatus {
  StepSettings in_force;
  StepSettings wanted;  // bsp: in force when the round under way is over
  AutoSettings chosen;
  uint64_t changes = 0;        // that were made
  uint64_t since_samples = 0;  // that were counted at the last one
};

/// Changes keys of the job file, all or none: those of StepSettings. Each worker has them with its
/// next lease, in bsp all of them with the next round. Errors: kInvalidArgument (a key that can't
/// change now, a value that the job file would not take).
struct SetRequest {
  std::vector<ConfigOverride> changes;
};

struct SetReply {
  StepsStatus steps;
};

/// Train leases are granted no more, or again. Errors: kInvalidArgument (the run is ending).
struct PauseRequest {
  bool is_paused = false;
};

struct PauseReply {};

/// The job goes on in another mode, as soon as the steps under way are done. A later request takes
/// the place of one that is not done yet. Errors: kInvalidArgument (staleness, no room for rounds,
/// the run is ending).
struct ModeRequest {
  ModeChoice wanted;
};

struct ModeReply {
  ModesStatus modes;
};

}  // namespace ps::proto
