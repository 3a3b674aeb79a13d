#pragma once

#include <string>
#include <string_view>

#include "ps/aws/credentials.h"
#include "ps/base/status.h"
#include "ps/http/http.h"
#include "ps/process/environment.h"

// Keys that expire, from services of the machine and from commands. None of them says when it has
// to be asked again: whoever uses a key asks when it is refused.

namespace ps::aws {

/// Reads {"AccessKeyId": ..., "SecretAccessKey": ..., "Token" or "SessionToken": ...}. Errors:
/// kUnavailable, which repeats nothing of the text.
Result<Credentials> ParseTemporaryKeys(std::string_view json, const std::string& source);

/// By IMDSv2; AWS_EC2_METADATA_SERVICE_ENDPOINT names another address. Errors: kNotFound (there is
/// no such service here, AWS_EC2_METADATA_DISABLED, or no role), kUnavailable.
Result<Credentials> ReadInstanceRole(const Environment& environment, HttpClient& http);

/// Keys of the container's role on ECS or EKS. Errors: kNotFound (neither variable is set),
/// kUnavailable.
Result<Credentials> ReadContainerRole(const Environment& environment, HttpClient& http);

/// What `command` prints, run by /bin/sh as the AWS tools do. Errors: kUnavailable (it fails, is
/// silent for a minute, or prints something else).
Result<Credentials> RunCredentialProcess(const std::string& command, const std::string& source);

}  // namespace ps::aws
