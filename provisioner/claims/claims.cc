#include "provisioner/claims/claims.h"

#include <algorithm>
#include <iterator>

#include "provisioner/claims/published_figures.h"
#include "provisioner/claims/seed_claims.h"

namespace ps::provisioner {

std::vector<std::string> ClaimSeeds() {
  return {"spotdnn", "deepvm", "parcae", "srift", "transient", "syncswitch"};
}

std::vector<Claim> AllClaims(const ClaimFolders& folders, const std::vector<ClaimTrace>& traces) {
  const PublishedFigures figures(folders.data);
  std::vector<Claim> claims;
  AddSpotDnnClaims(folders, figures, &claims);
  AddDeepVmClaims(&claims);
  AddParcaeClaims(figures, traces, &claims);
  AddSriftClaims(folders, &claims);
  AddTransientClaims(figures, &claims);
  AddSyncSwitchClaims(&claims);
  const auto part_of = [](const Claim& claim) {
    return claim.is_headline ? 0 : (claim.trace.empty() ? 1 : 2);
  };
  std::vector<Claim> ordered;
  for (const int part : {0, 1, 2}) {
    std::ranges::copy_if(claims, std::back_inserter(ordered), [&](const Claim& claim) {
      return part_of(claim) == part;
    });
  }
  return ordered;
}

}  // namespace ps::provisioner
