#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "provisioner/provider/aws_faults.h"
#include "provisioner/provider/provider.h"
#include "ps/aws/credentials.h"
#include "ps/aws/xml.h"
#include "ps/base/time.h"
#include "ps/http/http.h"
#include "ps/json/json_value.h"

namespace ps::provisioner {

struct AwsOptions {
  std::string region;    // "us-east-1"
  std::string endpoint;  // of all services: "http://127.0.0.1:5000"; empty: those of AWS
  aws::CredentialsSource find_credentials;  // asked at the first call, and when keys are refused
  std::shared_ptr<HttpClient> http;
  const TimeSource* time = &SystemTime();
};

/// The parameters of a call of a query API, in their order.
class AwsForm {
 public:
  void Add(std::string name, std::string value) {
    fields_.emplace_back(std::move(name), std::move(value));
  }

  /// "Filter.N.Name" and its values; N counts the calls.
  void AddFilter(const std::string& name, const std::vector<std::string>& values);

  const std::vector<std::pair<std::string, std::string>>& fields() const { return fields_; }

 private:
  std::vector<std::pair<std::string, std::string>> fields_;
  int filters_ = 0;
};

/// How a call went, and what came.
struct AwsReply {
  CallEnd end;
  AwsError error;       // where the service gave one
  bool is_cut = false;  // the answer broke off, or was no answer: another one may be whole
  aws::XmlElement xml;  // of a query API
  JsonValue json;       // of a JSON API
};

enum class AwsEffect {
  kReads,    // an answer that is cut off is asked for once more
  kChanges,  // never again by itself
};

/// Signed calls of AWS's services, one after another. Keys that are refused are looked for again,
/// once a call; secrets get into no text. Thread: any one at a time.
class AwsClient {
 public:
  explicit AwsClient(AwsOptions options) : options_(std::move(options)) {}

  const std::string& region() const { return options_.region; }

  AwsReply Ec2(const std::string& action, const AwsForm& form, AwsEffect effect);
  AwsReply Sts(const std::string& action, const AwsForm& form);
  /// `target`: "ServiceQuotasV20190624.GetServiceQuota"; `service` as signatures call it. "pricing"
  /// is asked in us-east-1, where it knows all regions.
  AwsReply Json(const std::string& service, const std::string& target, const std::string& body);

 private:
  struct Call {
    std::string service;
    std::string action;
    std::string body;
    std::string content_type;
    std::string target;  // of a JSON API; empty: a query
    AwsEffect effect = AwsEffect::kReads;
  };

  AwsReply Query(
      const std::string& service,
      const std::string& version,
      const std::string& action,
      const AwsForm& form,
      AwsEffect effect);
  AwsReply Do(const Call& call);
  AwsReply Attempt(const Call& call);
  /// Whether there are others than those that were refused; `end` becomes why there are none.
  bool FindKeysAgain(CallEnd* end);
  AwsReply Read(const Call& call, const HttpReply& reply) const;
  AwsReply Failed(const Call& call, AwsError error, const HttpReply& reply) const;
  std::string CredentialsText(const AwsError& error, const HttpReply& reply) const;
  std::string CallText(const Call& call) const;

  const AwsOptions options_;
  aws::Credentials keys_;
  bool has_keys_ = false;
};

}  // namespace ps::provisioner
