#pragma once

#include <functional>
#include <string>

#include "ps/base/status.h"
#include "ps/base/time.h"
#include "ps/http/http.h"
#include "ps/process/environment.h"

namespace ps::provisioner {

/// What calls of Google's services show. It ends after an hour; who is refused asks for another.
/// Secrets get into no text.
struct GoogleToken {
  std::string token;
  std::string source;   // "the service account ml@p.iam.gserviceaccount.com of /home/a/key.json"
  std::string project;  // that the file or the machine names; else empty
};

/// Looks where it comes from, anew each time.
using GoogleTokenSource = std::function<Result<GoogleToken>()>;

/// From the first of these that there is:
/// - the file GOOGLE_APPLICATION_CREDENTIALS;
/// - gcloud's application_default_credentials.json, in CLOUDSDK_CONFIG or ~/.config/gcloud;
/// - the machine's service account, by the metadata service (GCE_METADATA_HOST).
/// A file has the key of a service account, which signs for itself, or what a person has left with
/// `gcloud auth application-default login`. Errors: kInvalidArgument (there is none, it is refused,
/// of a kind that is not read, or the clock is off), with what to do; kUnavailable.
Result<GoogleToken> FindGoogleToken(
    const Environment& environment, HttpClient* http, const TimeSource& time);

}  // namespace ps::provisioner
