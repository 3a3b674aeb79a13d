#pragma once

#include <string>

#include "ps/base/status.h"
#include "ps/proto/catalog.h"

namespace ps::psctl {

/// `given`, or else configs/catalog/aws.json: below the working directory, or below the nearest
/// folder above psctl's own that has one, so that a build tree finds its sources' catalog. Errors:
/// kNotFound, which says where it was looked for.
Result<std::string> FindCatalog(const std::string& given);

/// The catalog that FindCatalog finds. Errors: as ReadFile's and ParseCatalog's.
Result<proto::Catalog> LoadCatalog(const std::string& given);

}  // namespace ps::psctl
