#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ps/base/status.h"
#include "ps/proto/job_config.h"
#include "ps/proto/profile.h"

namespace ps::psctl {

/// Where a job's profile lies when the user names no file: in the working directory.
inline constexpr char kDefaultProfile[] = "profile.json";

/// The mark of what a job trains with: data, model, optimizer, train, as far as loss curves and
/// step times depend on them. 8 hexadecimal digits. The number of epochs counts when the learning
/// rate follows it; seeds, leases and evaluations never do.
std::string TrainingFingerprint(const proto::JobConfig& config);

/// Whether figures of both go into one profile: same model, same training. A mark that is missing
/// fits all. Errors: kInvalidArgument, begins with `path`, says what differs and how to name
/// another.
Status CheckSameJob(
    const std::string& path, const proto::JobProfile& older, const proto::JobProfile& newer);

struct ProfileUpdate {
  proto::JobProfile profile;
  std::vector<std::string> not_fitted;  // a line each
};

/// The profile at `path`, or null when there is none, to what is to stand there.
using ProfileChange = std::function<Result<proto::JobProfile>(const proto::JobProfile* older)>;

/// Fits what `change` makes of the file anew and writes it. Runs that end at the same time wait for
/// each other. Errors: those of `change`, kInvalidArgument (no profile), kIo.
Result<ProfileUpdate> UpdateProfileFile(const std::string& path, const ProfileChange& change);

}  // namespace ps::psctl
