#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "ps/base/status.h"
#include "ps/http/http.h"
#include "ps/process/environment.h"

namespace ps::aws {

/// A service of AWS, or of what speaks its protocol.
struct Service {
  std::string name;      // as signatures call it: "s3", "ec2"
  std::string region;    // empty: from the environment
  std::string endpoint;  // "https://host[:port]"; empty: from the environment, or that of AWS
};

/// kInvalidArgument unless it is http://HOST[:PORT] or https://HOST[:PORT]; slashes at its end go.
Status CheckEndpoint(std::string* endpoint);

/// With what requests are signed. Secrets get into no text.
struct Credentials {
  SigningKey key;
  std::string session_token;  // of temporary ones; else empty
  std::string source;         // "the environment", "profile ml of /home/a/.aws/credentials"
};

/// Signs it anew, with these alone.
void SignWith(const Credentials& credentials, HttpRequest* request);

/// "the access key AKIDEXAM... from the environment": enough to tell keys apart.
std::string ShownKey(const Credentials& credentials);

/// Looks where the keys come from, anew each time: files and roles change while a run goes on.
using CredentialsSource = std::function<Result<Credentials>()>;

/// What a section of an AWS configuration file says: its keys and their values, without the blanks
/// around them.
using ProfileValues = std::map<std::string, std::string>;

/// The values of one section, "default" or "profile ml"; none when there is no such section. Takes
/// any bytes.
ProfileValues ParseProfileSection(std::string_view text, std::string_view section);

/// The first of these that there is:
/// - AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, unless AWS_PROFILE is set;
/// - keys, or credential_process, of the profile AWS_PROFILE ("default") in
///   AWS_SHARED_CREDENTIALS_FILE and AWS_CONFIG_FILE;
/// - the container's service (AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or _FULL_URI);
/// - the role of the EC2 instance (IMDSv2).
/// The services are asked with `http`; null: not at all. The region is that of `service`, else
/// AWS_REGION, AWS_DEFAULT_REGION, the profile's, or us-east-1. An endpoint that `service` lacks
/// comes from AWS_ENDPOINT_URL_S3 (or what it is called), AWS_ENDPOINT_URL or the profile.
/// `purpose` is for messages: "s3://bucket". Errors: kInvalidArgument (there are none, half of
/// them, or those of a kind that is not read: sso, roles to assume, web identity), with what to do;
/// kUnavailable (a service or a command failed).
Result<Credentials> FindCredentials(
    const Environment& environment, HttpClient* http, const std::string& purpose, Service* service);

}  // namespace ps::aws
