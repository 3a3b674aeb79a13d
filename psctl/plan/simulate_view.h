#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "provisioner/simulator/simulation_result.h"
#include "psctl/plan/simulate_command.h"

namespace ps::psctl {

/// A policy over all seeds.
struct PolicyRuns {
  std::string name;
  std::vector<provisioner::SimulationResult> runs;  // by seed
};

/// What policies came to on a trace.
struct Judgement {
  provisioner::SimulatedJob job;
  std::string start_note;  // of its type's measured start; empty: there is nothing to say
  double trace_s = 0;
  uint32_t most = 0;  // machines at once
  std::vector<PolicyRuns> policies;
};

/// A table, with the means over the seeds.
std::string RenderJudgement(const SimulateCommand& command, const Judgement& judgement);

/// The same as JSON. Times are in seconds, machines' times in node-seconds.
std::string JsonOfJudgement(const SimulateCommand& command, const Judgement& judgement);

/// Lines over the trace's time, of the first seed, as SVG.
std::string PlotJudgement(const SimulateCommand& command, const Judgement& judgement);

}  // namespace ps::psctl
