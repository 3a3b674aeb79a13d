#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "provisioner/provider/gce_faults.h"
#include "provisioner/provider/google_token.h"
#include "provisioner/provider/provider.h"
#include "ps/http/http.h"
#include "ps/json/json_value.h"

namespace ps::provisioner {

struct GceOptions {
  std::string project;
  std::string endpoint;  // of all services: "http://127.0.0.1:5000"; empty: Google's
  GoogleTokenSource find_token;
  /// Has to wait two minutes for an answer: operations are waited for there.
  std::shared_ptr<HttpClient> http;
};

struct GceReply {
  CallEnd end;
  GceError error;       // where the service gave one
  bool is_cut = false;  // the answer broke off, or was no answer
  JsonValue json;       // an object
};

struct GceCall {
  std::string method = "GET";
  std::string path = {};        // below the project: "zones/us-central1-a/instances"
  std::string query = {};       // encoded, without the "?"
  std::string body = {};        // JSON; empty: none
  std::string permission = {};  // that it takes, for messages: "compute.instances.create"
  std::string project = {};     // empty: the client's
};

/// Calls of Compute Engine, one after another. A token that is refused is looked for again, once a
/// call; one that reads and whose answer broke off is made once more. Thread: any one at a time.
class GceClient {
 public:
  explicit GceClient(GceOptions options) : options_(std::move(options)) {}

  const std::string& project() const { return options_.project; }

  GceReply Do(const GceCall& call);
  /// Which of these the token has. Another service (Resource Manager) tells.
  GceReply HeldPermissions(const std::vector<std::string>& permissions);

 private:
  GceReply DoAt(const std::string& url, const GceCall& call);
  GceReply Attempt(const std::string& url, const GceCall& call);
  bool FindTokenAgain(CallEnd* end);
  GceReply Read(const GceCall& call, const HttpReply& reply) const;

  const GceOptions options_;
  GoogleToken token_;
};

}  // namespace ps::provisioner
