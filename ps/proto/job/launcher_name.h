#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "ps/proto/job/job_config.h"

namespace ps::proto {

/// By the launcher's number.
inline constexpr std::array<std::string_view, 6> kLauncherNames = {
    "local", "ssh", "slurm", "kubernetes", "ec2", "gce"};

/// As in the job file.
constexpr std::string_view LauncherName(LauncherKind launcher) {
  return kLauncherNames.at(static_cast<size_t>(launcher));
}

}  // namespace ps::proto
