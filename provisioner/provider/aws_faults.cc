#include "provisioner/provider/aws_faults.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "ps/base/text.h"

namespace ps::provisioner {
namespace {

constexpr std::string_view kEncoded = "Encoded authorization failure message:";

/// The first row that a code begins with decides.
constexpr std::pair<std::string_view, CallFault> kFaults[] = {
    {"InsufficientInstanceCapacity", CallFault::kNoStock},
    {"InsufficientHostCapacity", CallFault::kNoStock},
    {"InsufficientReservedInstanceCapacity", CallFault::kNoStock},
    {"InsufficientCapacity", CallFault::kNoStock},
    // A subnet has none left; those of other zones may have some.
    {"InsufficientFreeAddresses", CallFault::kNoStock},
    {"UnfulfillableCapacity", CallFault::kNoStock},
    {"SpotMaxPriceTooLow", CallFault::kNoStock},
    {"MaxSpotInstanceCountExceeded", CallFault::kQuota},
    {"MaxSpotFleetRequestCountExceeded", CallFault::kQuota},
    {"MaxFleetCountExceeded", CallFault::kQuota},
    {"VcpuLimitExceeded", CallFault::kQuota},
    {"InstanceLimitExceeded", CallFault::kQuota},
    {"VolumeLimitExceeded", CallFault::kQuota},
    {"MaxIOPSLimitExceeded", CallFault::kQuota},
    {"ResourceLimitExceeded", CallFault::kQuota},
    {"LaunchTemplateLimitExceeded", CallFault::kQuota},
    {"RequestLimitExceeded", CallFault::kThrottled},
    {"RequestThrottled", CallFault::kThrottled},
    {"RequestResourceCountExceeded", CallFault::kThrottled},
    {"Throttling", CallFault::kThrottled},
    {"ThrottledException", CallFault::kThrottled},
    {"EC2ThrottledException", CallFault::kThrottled},
    {"TooManyRequests", CallFault::kThrottled},
    {"SlowDown", CallFault::kThrottled},
    {"UnauthorizedOperation", CallFault::kDenied},
    {"AccessDenied", CallFault::kDenied},
    {"AuthFailure.ServiceLinkedRoleCreationNotPermitted", CallFault::kDenied},
    {"OptInRequired", CallFault::kDenied},
    {"PendingVerification", CallFault::kDenied},
    {"Blocked", CallFault::kDenied},
    {"AuthFailure", CallFault::kCredentials},
    {"SignatureDoesNotMatch", CallFault::kCredentials},
    {"InvalidSignature", CallFault::kCredentials},
    {"IncompleteSignature", CallFault::kCredentials},
    {"RequestExpired", CallFault::kCredentials},
    {"RequestTimeTooSkewed", CallFault::kCredentials},
    {"InvalidClientTokenId", CallFault::kCredentials},
    {"InvalidAccessKeyId", CallFault::kCredentials},
    {"UnrecognizedClient", CallFault::kCredentials},
    {"ExpiredToken", CallFault::kCredentials},
    {"MissingAuthenticationToken", CallFault::kCredentials},
    {"NotAuthorized", CallFault::kCredentials},
    {"IdempotentParameterMismatch", CallFault::kMismatch},
    // The machine of that token has ended already.
    {"IdempotentInstanceTerminated", CallFault::kMismatch},
    {"InternalError", CallFault::kUnclear},
    {"InternalFailure", CallFault::kUnclear},
    {"InternalService", CallFault::kUnclear},
    {"ServiceUnavailable", CallFault::kUnclear},
    {"Unavailable", CallFault::kUnclear},
    {"RequestTimeout", CallFault::kUnclear},
};

/// Some replies put the side at fault in front of the code.
std::string_view Bare(std::string_view code) {
  for (const std::string_view side : {std::string_view("Client."), std::string_view("Server.")}) {
    if (code.starts_with(side)) {
      return code.substr(side.size());
    }
  }
  return code;
}

}  // namespace

CallFault AwsFaultOf(const AwsError& error) {
  const std::string_view code = Bare(error.code);
  for (const auto& [beginning, fault] : kFaults) {
    if (code.starts_with(beginning)) {
      return fault;
    }
  }
  if (error.http_status == 429) {
    return CallFault::kThrottled;
  }
  if (error.http_status >= 500 || error.code.starts_with("Server.") || error.code.empty()) {
    return CallFault::kUnclear;
  }
  return CallFault::kRefused;
}

bool IsClockFault(const AwsError& error) {
  return error.code == "RequestExpired" || error.code == "RequestTimeTooSkewed" ||
         error.message.find("Signature not yet current") != std::string::npos ||
         error.message.find("Signature expired") != std::string::npos;
}

std::string MissingPermission(const AwsError& error, const std::string& asked) {
  if (error.code.starts_with("AuthFailure.ServiceLinkedRole")) {
    return "iam:CreateServiceLinkedRole";
  }
  constexpr std::string_view kBefore = "not authorized to perform: ";
  const size_t at = error.message.find(kBefore);
  if (at == std::string::npos) {
    return asked;
  }
  const std::string_view rest = std::string_view(error.message).substr(at + kBefore.size());
  const size_t end = std::min(rest.find_first_of(" ,;"), rest.size());
  const bool is_name = end > 0 && end < 100 && rest.substr(0, end).find(':') != rest.npos;
  return is_name ? Printable(rest.substr(0, end)) : asked;
}

std::string EncodedAuthorization(const AwsError& error) {
  const size_t at = error.message.find(kEncoded);
  if (at == std::string::npos) {
    return "";
  }
  std::string_view blob = std::string_view(error.message).substr(at + kEncoded.size());
  blob.remove_prefix(std::min(blob.find_first_not_of(' '), blob.size()));
  return std::string(blob.substr(0, blob.find_first_of(" \n")));
}

std::string AwsErrorText(const AwsError& error) {
  std::string message = error.message.substr(0, error.message.find(kEncoded));
  while (message.ends_with(' ')) {
    message.pop_back();
  }
  const std::string status =
      error.http_status == 0 ? "" : fmt::format("HTTP {} ", error.http_status);
  return fmt::format(
      "{}{}{}{}",
      error.code.empty() ? status : "",
      error.code.empty() ? "without a code" : Printable(Clip(error.code, 100)),
      message.empty() ? "" : ": ",
      Printable(Clip(message, 400)));
}

}  // namespace ps::provisioner
