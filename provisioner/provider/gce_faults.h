#pragma once

#include <string>

#include "provisioner/provider/provider.h"
#include "ps/json/json_value.h"

namespace ps::provisioner {

/// What Compute Engine says went wrong, in a reply or in an operation.
struct GceError {
  int http_status = 0;
  std::string code;  // "ZONE_RESOURCE_POOL_EXHAUSTED", "rateLimitExceeded"; empty: it gave none
  std::string message;
};

/// {"error": {"code": 403, "message": ..., "errors": [{"reason": "quotaExceeded", ...}]}} of a
/// reply, or {"error": {"errors": [{"code": "QUOTA_EXCEEDED", "message": ...}]}} of an operation.
/// Takes anything.
GceError ReadGceError(const JsonValue& json, int http_status);

/// By the beginnings of codes: the service adds "_WITH_DETAILS" and others to some. kUnclear where
/// the service itself failed, kRefused for what is not in the table.
CallFault GceFaultOf(const GceError& error);

/// The permission that a message names ("Required 'compute.instances.create' permission for ...");
/// else `asked`.
std::string GcePermission(const GceError& error, const std::string& asked);

/// "QUOTA_EXCEEDED: Quota 'X' exceeded", on one line.
std::string GceErrorText(const GceError& error);

}  // namespace ps::provisioner
