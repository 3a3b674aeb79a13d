#pragma once

#include <optional>
#include <string>

#include "ps/proto/messages.h"

namespace ps::psctl {

/// `psctl why`: where the workers' time goes, or one's, what is the limit, what would help, and
/// what a kill would cost now. Who waits for whom since when, and the times that follow from
/// max_detect.
std::string RenderWhy(
    const proto::JobStatus& status, const std::optional<WorkerId>& worker = std::nullopt);

/// The longest waits first.
std::string RenderWaits(const proto::JobStatus& status, size_t count_max);

}  // namespace ps::psctl
