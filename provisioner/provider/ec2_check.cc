#include "provisioner/provider/ec2_check.h"

#include <fmt/core.h>

#include <set>
#include <utility>

#include "provisioner/provider/ec2_quotas.h"
#include "provisioner/provider/request_check.h"
#include "ps/base/text.h"

namespace ps::provisioner {
namespace {

class Checker {
 public:
  Checker(const RentRequest& request, const Ec2Facts& facts, AwsClient* client)
      : request_(request), facts_(facts), client_(client), offered_(request.pools) {}

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
    if (!offered_.empty()) {
      std::vector<CheckLine> quotas = CheckEc2Quotas(offered_, client_);
      lines_.insert(lines_.end(), quotas.begin(), quotas.end());
    }
    return std::move(lines_);
  }

 private:
  void Tell(std::string what, CallEnd end, std::string finding = "", std::vector<Pool> pools = {}) {
    lines_.push_back(
        {.what = std::move(what),
         .end = std::move(end),
         .finding = std::move(finding),
         .pools = std::move(pools)});
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
        std::erase(offered_, pool);
        Tell(
            PoolText(pool),
            Refused(fmt::format(
                "EC2 has no {} in {}; there is {}",
                pool.type,
                pool.zone,
                places.empty() ? "none of these types in any zone" : Printable(Join(places)))),
            "",
            {pool});
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

  const RentRequest& request_;
  const Ec2Facts& facts_;
  AwsClient* const client_;
  std::vector<Pool> offered_;  // of the request's, as far as is known
  std::vector<CheckLine> lines_;
};

}  // namespace

std::vector<CheckLine> CheckEc2(
    const RentRequest& request, const Ec2Facts& facts, AwsClient* client) {
  return Checker(request, facts, client).All();
}

}  // namespace ps::provisioner
