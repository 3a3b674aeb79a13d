#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ps/base/status.h"
#include "ps/proto/files/catalog.h"
#include "ps/proto/files/plan.h"
#include "ps/proto/files/profile.h"

namespace ps::run {

// The files that plans are made of: catalogs, profiles, plans.

/// The folder below which a shipped file lies, named as in the sources: the working directory
/// ("."), the nearest folder above psctl's own, or ../share/spotps beside it. Errors: kNotFound,
/// which says where it was looked for.
Result<std::string> FindShipped(const std::string& file);

/// `given`, or else configs/catalog/aws.json: below the working directory, or below the nearest
/// folder above psctl's own that has one, so that a build tree finds its sources' catalog. Errors:
/// kNotFound, which says where it was looked for.
Result<std::string> FindCatalog(const std::string& given);

/// The catalog that FindCatalog finds. Errors: as ReadFile's and ParseCatalog's.
Result<proto::Catalog> LoadCatalog(const std::string& given);

/// Errors: as ReadFile's and ParsePlan's.
Result<proto::Plan> LoadPlan(const std::string& path);

/// Errors: as ReadFile's and ParseProfile's; a missing file comes with the way to make one.
Result<proto::JobProfile> LoadProfile(const std::string& path);

/// Where a job's profile lies when the user names no file: in the working directory.
inline constexpr char kDefaultProfile[] = "profile.json";

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

}  // namespace ps::run
