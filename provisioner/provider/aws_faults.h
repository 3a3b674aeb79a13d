#pragma once

#include <string>
#include <string_view>

#include "provisioner/provider/provider.h"

namespace ps::provisioner {

/// What a service of AWS says went wrong.
struct AwsError {
  int http_status = 0;  // 0: it is part of a reply that came with 200
  std::string code;     // "VcpuLimitExceeded"; empty: it gave none
  std::string message;
};

/// By the beginnings of codes, since variants come without notice: kUnclear where the service
/// itself failed, kRefused for what is not in the table.
CallFault AwsFaultOf(const AwsError& error);

/// Whether it says that the signature's time is too far from the service's.
bool IsClockFault(const AwsError& error);

/// The permission that is missing: that of the message ("... not authorized to perform:
/// ec2:RunInstances on ..."), else `asked`.
std::string MissingPermission(const AwsError& error, const std::string& asked);

/// The blob for sts:DecodeAuthorizationMessage in it; empty: there is none.
std::string EncodedAuthorization(const AwsError& error);

/// "VcpuLimitExceeded: You have ...", on one line, without what no person can read.
std::string AwsErrorText(const AwsError& error);

}  // namespace ps::provisioner
