#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "provisioner/fleet/agent_process.h"
#include "provisioner/fleet/slurm_state.h"

namespace ps::provisioner {

struct SlurmJob {
  std::string name;                    // for squeue; the agent makes it unique
  std::optional<uint32_t> task;        // number within an array of one task; none: no array
  std::string log_path;                // gets the program's output
  uint32_t cpus = 1;                   // for the program
  std::vector<std::string> words;      // put after sbatch, where they prevail
  std::vector<std::string> arguments;  // the program, which every node has, and its arguments
  std::string needs;                   // a file or folder that the node has to have; empty: none
  uint32_t notice_s = 0;               // from SIGTERM to the end of the job's time, 60 at least
  Duration poll{};                     // between two questions, at first
  Duration answer_limit{};             // of each of Slurm's commands
};

/// The path as sbatch's --output takes it, which would replace "%j" and the like by numbers and
/// names. Pure.
std::string SlurmFilePattern(std::string_view path);

/// Runs the program as a job of its own, or as the one task of an array, so that Slurm's own tools
/// show its number (12_3); where Slurm takes no array with that number, as a job. Slurm never
/// requeues it: whoever runs the fleet replaces
/// it, and two would have one seat.
///  - Slurm's SIGTERM, before it takes a node back or at the end of the time, reaches the program.
///  - SIGTERM is passed on. A job that is not to be any more is cancelled.
///  - A job that Slurm took without an answer, or starts after it was given up, runs nothing.
///  - It gets the variables of SlurmExport; `words` may say otherwise (--export=...).
AgentEnd RunBySlurm(const SlurmJob& job, const AgentWishes& wishes);

}  // namespace ps::provisioner
