#include "provisioner/provider/ec2_forms.h"

#include <fmt/core.h>

#include <span>

#include "provisioner/provider/request_check.h"
#include "ps/crypto/base64.h"

namespace ps::provisioner {
namespace {

void AddTags(const RentRequest& request, int spec, const char* resource, AwsForm* form) {
  const std::string at = fmt::format("TagSpecification.{}.", spec);
  form->Add(at + "ResourceType", resource);
  int tag = 0;
  const auto add = [&](std::string_view name, const std::string& value) {
    ++tag;
    form->Add(fmt::format("{}Tag.{}.Key", at, tag), std::string(name));
    form->Add(fmt::format("{}Tag.{}.Value", at, tag), value);
  };
  for (const auto& [name, value] : request.tags) {
    add(name, value);
  }
  add(kTokenTag, request.token);
}

/// What a machine is like, by the names that CreateLaunchTemplate and RunInstances share.
void AddSetup(
    const MachineSetup& setup, const Ec2Facts& facts, const std::string& at, AwsForm* form) {
  const auto add_some = [&](const char* name, const std::string& value) {
    if (!value.empty()) {
      form->Add(at + name, value);
    }
  };
  add_some("ImageId", setup.image);
  add_some("KeyName", setup.key_name);
  add_some(
      setup.role.starts_with("arn:") ? "IamInstanceProfile.Arn" : "IamInstanceProfile.Name",
      setup.role);
  int ids = 0;
  int names = 0;
  for (const std::string& group : PartsOf(setup.security_group)) {
    const bool is_id = group.starts_with("sg-");
    add_some(
        is_id ? fmt::format("SecurityGroupId.{}", ++ids).c_str()
              : fmt::format("SecurityGroup.{}", ++names).c_str(),
        group);
  }
  if (setup.disk_gib > 0) {
    form->Add(at + "BlockDeviceMapping.1.DeviceName", facts.root_device);
    form->Add(at + "BlockDeviceMapping.1.Ebs.VolumeSize", fmt::format("{}", setup.disk_gib));
    form->Add(at + "BlockDeviceMapping.1.Ebs.VolumeType", "gp3");
    form->Add(at + "BlockDeviceMapping.1.Ebs.DeleteOnTermination", "true");
  }
  // A machine that ends itself is gone, and costs nothing more.
  form->Add(at + "InstanceInitiatedShutdownBehavior", setup.keeps_disk ? "stop" : "terminate");
  // Keys of the role for programs that ask with a token alone; containers are one hop away.
  form->Add(at + "MetadataOptions.HttpTokens", "required");
  form->Add(at + "MetadataOptions.HttpPutResponseHopLimit", "2");
  if (!setup.user_data.empty()) {
    form->Add(at + "UserData", crypto::Base64Of(std::as_bytes(std::span(setup.user_data))));
  }
}

std::string SubnetOf(const Pool& pool, const Ec2Facts& facts) {
  const auto it = facts.subnet_of_zone.find(pool.zone);
  return it == facts.subnet_of_zone.end() ? std::string() : it->second;
}

}  // namespace

std::string Ec2TemplateName(const MachineSetup& setup) {
  // The subnet is of the fleet, not of the template, and no template ends a machine after a time.
  MachineSetup own = setup;
  own.subnet.clear();
  own.run_max = {};
  return "spotps-" + SetupDigest(own);
}

AwsForm Ec2TemplateForm(const RentRequest& request, const Ec2Facts& facts) {
  AwsForm form;
  const std::string name = Ec2TemplateName(request.setup);
  form.Add("LaunchTemplateName", name);
  AddSetup(request.setup, facts, "LaunchTemplateData.", &form);
  AddTags(request, 1, "launch-template", &form);
  return form;
}

AwsForm Ec2FleetForm(const RentRequest& request, const Ec2Facts& facts) {
  AwsForm form;
  const bool is_spot = request.pools.front().is_spot;
  form.Add("Type", "instant");
  form.Add("ClientToken", request.token);
  const std::string config = "LaunchTemplateConfigs.1.";
  form.Add(
      config + "LaunchTemplateSpecification.LaunchTemplateName", Ec2TemplateName(request.setup));
  form.Add(config + "LaunchTemplateSpecification.Version", "1");
  for (size_t i = 0; i < request.pools.size(); ++i) {
    const std::string at = fmt::format("{}Overrides.{}.", config, i + 1);
    const std::string subnet = SubnetOf(request.pools[i], facts);
    form.Add(at + "InstanceType", request.pools[i].type);
    if (subnet.empty()) {
      form.Add(at + "AvailabilityZone", request.pools[i].zone);
    } else {
      form.Add(at + "SubnetId", subnet);
    }
    if (!is_spot) {
      form.Add(at + "Priority", fmt::format("{}", i));
    }
  }
  form.Add("TargetCapacitySpecification.TotalTargetCapacity", "1");
  form.Add("TargetCapacitySpecification.DefaultTargetCapacityType", is_spot ? "spot" : "on-demand");
  if (is_spot) {
    form.Add("SpotOptions.AllocationStrategy", "price-capacity-optimized");
  } else {
    form.Add("OnDemandOptions.AllocationStrategy", "prioritized");
  }
  AddTags(request, 1, "instance", &form);
  AddTags(request, 2, "volume", &form);
  AddTags(request, 3, "fleet", &form);
  return form;
}

AwsForm Ec2TrialForm(const RentRequest& request, const Ec2Facts& facts) {
  AwsForm form;
  const Pool& pool = request.pools.front();
  form.Add("DryRun", "true");
  form.Add("MinCount", "1");
  form.Add("MaxCount", "1");
  form.Add("InstanceType", pool.type);
  const std::string subnet = SubnetOf(pool, facts);
  if (subnet.empty()) {
    form.Add("Placement.AvailabilityZone", pool.zone);
  } else {
    form.Add("SubnetId", subnet);
  }
  if (pool.is_spot) {
    form.Add("InstanceMarketOptions.MarketType", "spot");
  }
  AddSetup(request.setup, facts, "", &form);
  AddTags(request, 1, "instance", &form);
  AddTags(request, 2, "volume", &form);
  return form;
}

void AddTagFilters(const std::map<std::string, std::string>& tags, AwsForm* form) {
  for (const auto& [name, value] : tags) {
    form->AddFilter("tag:" + name, {value});
  }
}

}  // namespace ps::provisioner
