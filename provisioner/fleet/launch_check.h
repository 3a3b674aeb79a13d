#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ps/base/status.h"
#include "ps/base/time.h"
#include "ps/proto/job/job_config.h"

namespace ps::provisioner {

// The texts of a job's `launch` section, and whether what it asks for is on this machine.

/// `text` with {name}, {role} and {index} filled in for, e.g., role "worker" and index 3: worker3,
/// worker, 3. Other braces stay.
std::string FillLaunchText(std::string_view text, std::string_view role, uint32_t index);

/// The words of a command prefix, filled in.
std::vector<std::string> LaunchWords(
    std::string_view prefix, std::string_view role, uint32_t index);

/// Errors: kNotFound when ps_server, ps_worker or ps_agent is not in `directory`, or when a program
/// that the job's launchers ask for is not there; kUnavailable when a share of the processors can't
/// be given (CpuGroups).
Status CheckPrograms(const std::string& directory, const proto::JobConfig& config);

/// Whether servers that run elsewhere could be started, before any is: see
/// AgentKind::CheckServerPlaces.
Status CheckServerPlaces(const proto::JobConfig& config, Duration limit);

/// The same of workers, where their launcher can say so.
Status CheckWorkerPlaces(const proto::JobConfig& config, Duration limit);

}  // namespace ps::provisioner
