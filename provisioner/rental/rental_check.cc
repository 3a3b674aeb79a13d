#include "provisioner/rental/rental_check.h"

#include <set>
#include <vector>

namespace ps::provisioner {
namespace {

/// Whether nothing can be rented of the pools that the line is about.
bool IsReason(const CheckLine& line) {
  switch (line.end.fault) {
    case CallFault::kCredentials:
    case CallFault::kRefused:
    case CallFault::kQuota:
      return true;
    case CallFault::kDenied:
      // Who may not look, at a quota for example, may rent all the same.
      return line.what.starts_with("permission ");
    default:
      return false;
  }
}

}  // namespace

Result<std::string> CheckRental(Provider* provider, const RentRequest& request) {
  std::set<Pool> open(request.pools.begin(), request.pools.end());
  std::string reasons;
  for (const CheckLine& line : provider->Check(request)) {
    if (!IsReason(line)) {
      continue;
    }
    reasons += (reasons.empty() ? "" : "; ") + line.what + ": " + line.end.message;
    for (const Pool& pool : line.pools) {
      open.erase(pool);
    }
    if (line.pools.empty()) {
      open.clear();
    }
  }
  if (open.empty()) {
    return Status::InvalidArgument("no machine can be rented: " + reasons);
  }
  return reasons;
}

}  // namespace ps::provisioner
