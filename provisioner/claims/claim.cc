#include "provisioner/claims/claim.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace ps::provisioner {
namespace {

/// By how much `a` is better than `b`; below 0 where it is worse.
double Advantage(const Claim& claim, double a, double b) {
  switch (claim.better) {
    case Better::kHigher:
      return a - b;
    case Better::kLower:
      return b - a;
    case Better::kNearer:
      break;
  }
  return std::abs(b - claim.published) - std::abs(a - claim.published);
}

/// Half a unit of the last digit that is printed, and what rounding of a sum may add.
double PrintedHalf(const Claim& claim) {
  return 0.5000001 * std::pow(10.0, -claim.digits);
}

ClaimVerdict VerdictOf(const Claim& claim, double ours) {
  const double hidden =
      std::max(std::abs(claim.published) * claim.equal_within, PrintedHalf(claim));
  if (std::abs(ours - claim.published) <= hidden) {
    return ClaimVerdict::kEqual;
  }
  return Advantage(claim, ours, claim.published) > 0 ? ClaimVerdict::kBetter : ClaimVerdict::kWorse;
}

}  // namespace

std::string VerdictName(ClaimVerdict verdict) {
  switch (verdict) {
    case ClaimVerdict::kBetter:
      return "better";
    case ClaimVerdict::kEqual:
      return "equal";
    case ClaimVerdict::kWorse:
      return "worse";
    case ClaimVerdict::kNotChecked:
      break;
  }
  return "can't be checked";
}

Result<CheckedClaim> CheckClaim(const Claim& claim) {
  CheckedClaim checked = {.claim = claim};
  if (!claim.ours) {
    return checked;
  }
  PS_ASSIGN(checked.ours, claim.ours());
  if (!std::isfinite(checked.ours)) {
    return Status::InvalidArgument(
        fmt::format("{}: '{}' comes to no figure; install the data again", claim.seed, claim.text));
  }
  checked.verdict = VerdictOf(claim, checked.ours);
  checked.is_worse_than_recorded =
      std::isfinite(claim.recorded) &&
      Advantage(claim, claim.recorded, checked.ours) > 2 * PrintedHalf(claim);
  return checked;
}

std::string FigureText(const Claim& claim, double figure) {
  return std::isfinite(figure) ? fmt::format("{:.{}f}{}", figure, claim.digits, claim.unit) : "-";
}

}  // namespace ps::provisioner
