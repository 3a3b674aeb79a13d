#pragma once

#include <vector>

#include "provisioner/claims/claim.h"
#include "provisioner/claims/claims.h"
#include "provisioner/claims/published_figures.h"

namespace ps::provisioner {

// The claims of each system. What needs files reads them when a claim is checked.

void AddSpotDnnClaims(
    const ClaimFolders& folders, const PublishedFigures& figures, std::vector<Claim>* claims);
void AddDeepVmClaims(std::vector<Claim>* claims);
void AddParcaeClaims(
    const PublishedFigures& figures,
    const std::vector<ClaimTrace>& traces,
    std::vector<Claim>* claims);
void AddSriftClaims(const ClaimFolders& folders, std::vector<Claim>* claims);
void AddTransientClaims(const PublishedFigures& figures, std::vector<Claim>* claims);
void AddSyncSwitchClaims(std::vector<Claim>* claims);

}  // namespace ps::provisioner
