#include "provisioner/provider/ec2_check.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "provisioner/provider/request_check.h"
#include "ps/base/text.h"
#include "ps/json/json_writer.h"

namespace ps::provisioner {
namespace {

/// How EC2 counts vCPUs: a quota for the types of a row together, spot and on demand apart.
struct QuotaFamily {
  std::string_view letters;  // what the family's names begin with; in front of the first digit
  std::string_view name;
  std::string_view spot_code;
  std::string_view stable_code;
};

constexpr QuotaFamily kFamilies[] = {
    {"a c d h i m r t z", "Standard (A, C, D, H, I, M, R, T, Z)", "L-34B43A08", "L-1216C47A"},
    {"g gr vt", "G and VT", "L-3819A6DF", "L-DB2E81BA"},
    {"p", "P", "L-7212CCBC", "L-417A185B"},
    {"f", "F", "L-88CF9481", "L-74FC7D96"},
    {"inf", "Inf", "L-B5D1601B", "L-1945791B"},
    {"trn", "Trn", "L-6B0D517C", "L-2C3B7624"},
    {"x", "X", "L-E3A00192", "L-7295265B"},
};

const QuotaFamily* FamilyOf(std::string_view type) {
  // Special series have letters behind the ones of their family: "im4gn", "hpc7a" (none of these).
  const std::string_view letters = type.substr(0, type.find_first_of("0123456789"));
  const QuotaFamily* first = nullptr;
  for (const QuotaFamily& family : kFamilies) {
    for (size_t at = 0; at < family.letters.size();) {
      const size_t end = std::min(family.letters.find(' ', at), family.letters.size());
      if (family.letters.substr(at, end - at) == letters) {
        first = &family;
      }
      at = end + 1;
    }
  }
  if (first == nullptr && (letters == "im" || letters == "is")) {
    first = &kFamilies[0];
  }
  return first;
}

class Checker {
 public:
  Checker(const RentRequest& request, const Ec2Facts& facts, AwsClient* client)
      : request_(request), facts_(facts), client_(client) {}

  std::vector<CheckLine> All() {
    if (!CheckKeys()) {
      return std::move(lines_);
    }
    CheckImage();
    CheckNamed("key pair", request_.setup.key_name, "DescribeKeyPairs", "KeyName.1", "keySet");
    for (const std::string& group : PartsOf(request_.setup.security_group)) {
      CheckNamed(
          "security group",
          group,
          "DescribeSecurityGroups",
          group.starts_with("sg-") ? "GroupId.1" : "GroupName.1",
          "securityGroupInfo");
    }
    CheckOfferings();
    CheckPermissions();
    CheckQuotas();
    return std::move(lines_);
  }

 private:
  void Tell(std::string what, CallEnd end, std::string finding = "") {
    lines_.push_back(
        {.what = std::move(what), .end = std::move(end), .finding = std::move(finding)});
  }

  bool CheckKeys() {
    const AwsReply reply = client_->Sts("GetCallerIdentity", {});
    const auto at = [&](const char* name) {
      return Printable(reply.xml.TextAt(fmt::format("GetCallerIdentityResult/{}", name)));
    };
    Tell(
        "credentials",
        reply.end,
        reply.end.ok() ? fmt::format("account {}, {}", at("Account"), at("Arn")) : "");
    return reply.end.ok();
  }

  void CheckImage() {
    AwsForm form;
    const std::string image = request_.setup.image;
    form.Add("ImageId.1", image);
    const std::string what = fmt::format("image {}", Printable(image));
    const AwsReply reply = client_->Ec2("DescribeImages", form, AwsEffect::kReads);
    if (!reply.end.ok()) {
      return Tell(what, reply.end);
    }
    const std::vector<aws::XmlElement>& images = reply.xml.ChildrenAt("imagesSet");
    const std::string state(images.empty() ? "" : images.front().TextAt("imageState"));
    if (state != "available") {
      return Tell(
          what,
          Refused(fmt::format(
              "{} is {} in {}; take an image of this region",
              image,
              images.empty() ? "not there" : Printable(state),
              client_->region())));
    }
    Tell(
        what,
        {},
        fmt::format(
            "{}, {}",
            Printable(images.front().TextAt("name")),
            Printable(images.front().TextAt("architecture"))));
  }

  void CheckNamed(
      const char* kind,
      const std::string& name,
      const char* action,
      const char* parameter,
      const char* set) {
    if (name.empty()) {
      return;
    }
    AwsForm form;
    form.Add(parameter, name);
    const AwsReply reply = client_->Ec2(action, form, AwsEffect::kReads);
    const bool is_missing = reply.end.ok() && reply.xml.ChildrenAt(set).empty();
    Tell(
        fmt::format("{} {}", kind, Printable(name)),
        is_missing ? Refused(fmt::format("there is no {} {} in {}", kind, name, client_->region()))
                   : reply.end);
  }

  void CheckOfferings() {
    std::set<std::string> types;
    for (const Pool& pool : request_.pools) {
      types.insert(pool.type);
    }
    AwsForm form;
    form.Add("LocationType", "availability-zone");
    form.AddFilter("instance-type", {types.begin(), types.end()});
    const AwsReply reply = client_->Ec2("DescribeInstanceTypeOfferings", form, AwsEffect::kReads);
    if (!reply.end.ok()) {
      return Tell("types in zones", reply.end);
    }
    std::set<std::pair<std::string, std::string>> offered;
    std::set<std::string> places;
    for (const aws::XmlElement& item : reply.xml.ChildrenAt("instanceTypeOfferingSet")) {
      offered.emplace(item.TextAt("instanceType"), item.TextAt("location"));
      places.insert(fmt::format("{} in {}", item.TextAt("instanceType"), item.TextAt("location")));
    }
    for (const Pool& pool : request_.pools) {
      if (!offered.contains({pool.type, pool.zone})) {
        Tell(
            PoolText(pool),
            Refused(fmt::format(
                "EC2 has no {} in {}; there is {}",
                pool.type,
                pool.zone,
                places.empty() ? "none of these types in any zone" : Printable(Join(places)))));
      }
    }
    Tell("types in zones", {}, fmt::format("{} of these types are offered", offered.size()));
  }

  /// Trial runs change nothing: EC2 says DryRunOperation where it would have done it.
  void CheckPermissions() {
    Trial("RunInstances", Ec2TrialForm(request_, facts_));
    AwsForm fleet = Ec2FleetForm(request_, facts_);
    fleet.Add("DryRun", "true");
    Trial("CreateFleet", fleet);
    AwsForm launch_template = Ec2TemplateForm(request_, facts_);
    launch_template.Add("DryRun", "true");
    Trial("CreateLaunchTemplate", launch_template);
    AwsForm machines;
    AddTagFilters(request_.tags, &machines);
    machines.Add("DryRun", "true");
    Trial("DescribeInstances", machines);
    AwsForm end;
    end.Add("InstanceId.1", "i-00000000000000000");
    end.Add("DryRun", "true");
    Trial("TerminateInstances", end);
  }

  void Trial(const std::string& action, const AwsForm& form) {
    const AwsReply reply = client_->Ec2(action, form, AwsEffect::kReads);
    CheckLine line = {.what = "permission ec2:" + action, .end = {}, .finding = {}};
    // A policy may allow it for machines with a tag alone, such as configs/cloud/ec2_policy.json,
    // and the one of the trial has none.
    if (reply.end.fault == CallFault::kDenied && action == "TerminateInstances") {
      line.finding = "for no machine whatever; it may be allowed for those that are rented here";
      lines_.push_back(std::move(line));
      return;
    }
    switch (reply.end.fault) {
      case CallFault::kDenied:
      case CallFault::kThrottled:
      case CallFault::kUnclear:
      case CallFault::kCredentials:
        line.end = reply.end;
        break;
      default:
        // Who is refused for another reason was let in; the other lines tell the reason.
        if (reply.error.code != "DryRunOperation") {
          line.finding = "as far as can be told: " + AwsErrorText(reply.error);
        }
    }
    lines_.push_back(std::move(line));
  }

  void CheckQuotas() {
    std::map<std::string, int> vcpus;
    if (const CallEnd end = FindVcpus(&vcpus); !end.ok()) {
      return Tell("quotas", end);
    }
    std::set<std::pair<std::string_view, bool>> told;
    for (const Pool& pool : request_.pools) {
      const QuotaFamily* const family = FamilyOf(pool.type);
      if (family == nullptr) {
        Tell("quota of " + pool.type, {}, "not known which one; look under Service Quotas");
      } else if (told.emplace(family->name, pool.is_spot).second) {
        CheckQuota(*family, pool, vcpus[pool.type]);
      }
    }
  }

  CallEnd FindVcpus(std::map<std::string, int>* vcpus) {
    AwsForm form;
    std::set<std::string> types;
    for (const Pool& pool : request_.pools) {
      if (types.insert(pool.type).second) {
        form.Add(fmt::format("InstanceType.{}", types.size()), pool.type);
      }
    }
    const AwsReply reply = client_->Ec2("DescribeInstanceTypes", form, AwsEffect::kReads);
    for (const aws::XmlElement& item : reply.xml.ChildrenAt("instanceTypeSet")) {
      const std::string_view text = item.TextAt("vCpuInfo/defaultVCpus");
      int count = 0;
      std::from_chars(text.data(), text.data() + text.size(), count);
      (*vcpus)[std::string(item.TextAt("instanceType"))] = count;
    }
    return reply.end;
  }

  void CheckQuota(const QuotaFamily& family, const Pool& pool, int vcpus) {
    const std::string what =
        fmt::format("quota of {} {} vCPUs", family.name, pool.is_spot ? "spot" : "on-demand");
    const std::string code(pool.is_spot ? family.spot_code : family.stable_code);
    JsonWriter json(JsonForm::kOneLine);
    json.BeginObject();
    json.Field("ServiceCode", "ec2");
    json.Field("QuotaCode", code);
    json.EndObject();
    const AwsReply reply = client_->Json(
        "servicequotas", "ServiceQuotasV20190624.GetServiceQuota", std::move(json).Take());
    if (!reply.end.ok()) {
      return Tell(what, reply.end);
    }
    const JsonValue* const value =
        reply.json.kind == JsonValue::Kind::kObject ? reply.json.At("Quota.Value") : nullptr;
    double limit = -1;
    if (value != nullptr && value->kind == JsonValue::Kind::kNumber) {
      std::from_chars(value->text.data(), value->text.data() + value->text.size(), limit);
    }
    if (!(limit >= 0)) {
      return Tell(
          what,
          {.fault = CallFault::kUnclear, .message = "servicequotas gives no value for " + code});
    }
    const std::string finding =
        fmt::format("{} for all machines of the account; one {} has {}", limit, pool.type, vcpus);
    if (limit < vcpus) {
      return Tell(
          what,
          {.fault = CallFault::kQuota,
           .message =
               fmt::format("{}; ask for more under Service Quotas, EC2, {}", finding, code)});
    }
    Tell(what, {}, finding);
  }

  const RentRequest& request_;
  const Ec2Facts& facts_;
  AwsClient* const client_;
  std::vector<CheckLine> lines_;
};

}  // namespace

std::vector<CheckLine> CheckEc2(
    const RentRequest& request, const Ec2Facts& facts, AwsClient* client) {
  return Checker(request, facts, client).All();
}

}  // namespace ps::provisioner
