#pragma once

#include <string>
#include <vector>

#include "provisioner/claims/claim.h"

namespace ps::psctl {

/// Tables of at most 120 columns, headlines, others and those of each trace, and below them how
/// each row is made and which command shows it.
std::string RenderClaims(const std::vector<provisioner::CheckedClaim>& claims);

std::string ClaimsJson(const std::vector<provisioner::CheckedClaim>& claims);

}  // namespace ps::psctl
