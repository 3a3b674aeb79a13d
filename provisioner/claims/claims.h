#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "provisioner/claims/claim.h"
#include "ps/base/status.h"

namespace ps::provisioner {

/// The systems whose claims are known, in the order of the table.
std::vector<std::string> ClaimSeeds();

/// Where the figures lie that claims are checked with.
struct ClaimFolders {
  std::string data;     // with parcae/, spotdnn/, ps_scaling/
  std::string configs;  // with catalog/ and profiles/
};

/// How many machines of a trace there were at the begin of each minute.
struct ClaimTrace {
  std::string name;
  std::vector<uint32_t> minutes;
};

/// Minutes of a trace that claims are checked on; longer ones are cut.
inline constexpr size_t kClaimMinutesMax = 24 * 60;

/// All claims, headlines first, and last those of Parcae on each of the traces, with the published
/// figures of its own. Nothing is computed yet.
std::vector<Claim> AllClaims(const ClaimFolders& folders, const std::vector<ClaimTrace>& traces);

}  // namespace ps::provisioner
