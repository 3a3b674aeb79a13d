#include "provisioner/report/profile_range.h"

#include <fmt/core.h>

#include <algorithm>

namespace ps::provisioner {

std::vector<std::string> BeyondProfile(const proto::JobProfile& profile, double loss, int workers) {
  std::vector<std::string> notes;
  if (profile.losses.empty() || loss <= 0) {
    return notes;  // what the curves saw is not known
  }
  const auto [lowest, highest] = std::ranges::minmax(profile.losses, {}, &proto::LossSample::loss);
  if (loss < lowest.loss || loss > highest.loss) {
    notes.push_back(fmt::format(
        "loss {:.4g} is {} all that the profile saw, {:.4g} to {:.4g}: its steps are extrapolated",
        loss,
        loss < lowest.loss ? "below" : "above",
        lowest.loss,
        highest.loss));
  }
  const int most = std::ranges::max(profile.losses, {}, &proto::LossSample::workers).workers;
  if (workers > most) {
    notes.push_back(fmt::format(
        "the profile saw the losses of fleets of up to {} {}: the steps of {} are extrapolated",
        most,
        most == 1 ? "worker" : "workers",
        workers));
  }
  return notes;
}

}  // namespace ps::provisioner
