#pragma once

#include <functional>
#include <string>

#include "checkpoint/remote/s3_settings.h"
#include "ps/base/status.h"
#include "ps/http/http.h"

namespace ps::checkpoint {

/// With what requests to S3 are signed. Secrets get into no text.
struct S3Credentials {
  SigningKey key;
  std::string session_token;  // of temporary ones; else empty
  std::string source;         // "the environment", "profile ml of /home/a/.aws/credentials"
};

/// Looks where the keys come from, anew each time: files and roles change while a run goes on.
using FindCredentials = std::function<Result<S3Credentials>()>;

/// The first of these that there is:
/// - AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, unless AWS_PROFILE is set;
/// - keys, or credential_process, of the profile AWS_PROFILE ("default") in
///   AWS_SHARED_CREDENTIALS_FILE and AWS_CONFIG_FILE;
/// - the container's service (AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or _FULL_URI);
/// - the role of the EC2 instance (IMDSv2).
/// The services are asked with `http`; null: not at all. The region is that of `location`, else
/// AWS_REGION, AWS_DEFAULT_REGION, the profile's, or us-east-1. An endpoint that `location` lacks
/// comes from AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL or the profile. Errors: kInvalidArgument (there
/// are none, half of them, or those of a kind that is not read: sso, roles to assume, web
/// identity), with what to do; kUnavailable (a service or a command failed).
Result<S3Credentials> FindS3Credentials(
    const Environment& environment, HttpClient* http, S3Location* location);

}  // namespace ps::checkpoint
