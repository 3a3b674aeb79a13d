#pragma once

#include <string>

#include "provisioner/profile/profile_merge.h"
#include "ps/proto/profile.h"

namespace ps::psctl {

std::string RenderProfile(const proto::JobProfile& profile);

/// A line or two about the file at `path`.
std::string RenderRefinement(const std::string& path, const provisioner::Refinement& refinement);

}  // namespace ps::psctl
