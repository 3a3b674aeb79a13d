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
  std::vector<Claim> ordered;
  for (const bool is_headline : {true, false}) {
    std::ranges::copy_if(claims, std::back_inserter(ordered), [is_headline](const Claim& claim) {
      return claim.is_headline == is_headline;
    });
  }
  return ordered;
}

}  // namespace ps::provisioner
