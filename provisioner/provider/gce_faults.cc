#include "provisioner/provider/gce_faults.h"

#include <fmt/core.h>

#include <utility>

#include "provisioner/provider/gce_replies.h"
#include "ps/base/text.h"

namespace ps::provisioner {
namespace {

/// The first row that a code begins with decides. Reasons of replies are in camel case, codes of
/// operations in upper case.
constexpr std::pair<std::string_view, CallFault> kGceFaults[] = {
    {"ZONE_RESOURCE_POOL_EXHAUSTED", CallFault::kNoStock},
    {"RESOURCE_POOL_EXHAUSTED", CallFault::kNoStock},
    {"STOCKOUT", CallFault::kNoStock},
    {"UNSUPPORTED_OPERATION", CallFault::kRefused},
    {"QUOTA_EXCEEDED", CallFault::kQuota},
    {"quotaExceeded", CallFault::kQuota},
    {"limitExceeded", CallFault::kQuota},
    {"rateLimitExceeded", CallFault::kThrottled},
    {"userRateLimitExceeded", CallFault::kThrottled},
    {"RATE_LIMIT_EXCEEDED", CallFault::kThrottled},
    {"RESOURCE_OPERATION_RATE_EXCEEDED", CallFault::kThrottled},
    {"CONCURRENT_OPERATIONS_QUOTA_EXCEEDED", CallFault::kThrottled},
    {"forbidden", CallFault::kDenied},
    {"PERMISSIONS_ERROR", CallFault::kDenied},
    {"PERMISSION_DENIED", CallFault::kDenied},
    {"accessNotConfigured", CallFault::kDenied},
    {"SERVICE_DISABLED", CallFault::kDenied},
    {"authError", CallFault::kCredentials},
    {"required", CallFault::kRefused},
    {"backendError", CallFault::kUnclear},
    {"internalError", CallFault::kUnclear},
    {"INTERNAL_ERROR", CallFault::kUnclear},
    {"resourceNotReady", CallFault::kUnclear},
    {"RESOURCE_NOT_READY", CallFault::kUnclear},
    {"VM_MIN_COUNT_NOT_REACHED", CallFault::kNoStock},
};

}  // namespace

GceError ReadGceError(const JsonValue& json, int http_status) {
  GceError error;
  error.http_status = http_status;
  error.message = GceText(json, "error.message");
  error.code = GceText(json, "error.errors[0].reason");
  if (error.code.empty()) {
    error.code = GceText(json, "error.errors[0].code");
  }
  if (error.code.empty()) {
    error.code = GceText(json, "error.status");
  }
  if (error.message.empty()) {
    error.message = GceText(json, "error.errors[0].message");
  }
  return error;
}

CallFault GceFaultOf(const GceError& error) {
  for (const auto& [beginning, fault] : kGceFaults) {
    if (error.code.starts_with(beginning)) {
      return fault;
    }
  }
  if (error.http_status == 401) {
    return CallFault::kCredentials;
  }
  if (error.http_status == 403) {
    return CallFault::kDenied;
  }
  if (error.http_status == 429) {
    return CallFault::kThrottled;
  }
  if (error.http_status >= 500 || error.code.empty()) {
    return CallFault::kUnclear;
  }
  return CallFault::kRefused;
}

std::string GcePermission(const GceError& error, const std::string& asked) {
  constexpr std::string_view kBefore = "Required '";
  const size_t at = error.message.find(kBefore);
  if (at == std::string::npos) {
    return asked;
  }
  const std::string rest = error.message.substr(at + kBefore.size());
  const size_t end = rest.find('\'');
  return end == std::string::npos || end > 100 ? asked : Printable(rest.substr(0, end));
}

std::string GceErrorText(const GceError& error) {
  return fmt::format(
      "{}{}{}",
      error.code.empty() ? fmt::format("HTTP {} without a reason", error.http_status)
                         : Printable(Clip(error.code, 100)),
      error.message.empty() ? "" : ": ",
      Printable(Clip(error.message, 400)));
}

}  // namespace ps::provisioner
