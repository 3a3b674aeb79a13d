#pragma once

#include <map>
#include <string>

#include "provisioner/provider/aws_client.h"
#include "provisioner/provider/provider.h"

// What EC2 is asked, made from requests. EC2 rents by a fleet of type instant: one call with all
// pools, that is answered with the machine or with the reason of each pool. It takes what a machine
// is like from a launch template, so each setup has one, with a name that is made of the setup.

namespace ps::provisioner {

/// What has to be known of the account before something can be rented.
struct Ec2Facts {
  std::map<std::string, std::string> subnet_of_zone;  // empty: the default network
  std::string root_device;                            // empty: the disk stays as the image has it
};

/// User data beyond this is refused by EC2.
inline constexpr size_t kEc2UserDataBytesMax = 16384;

/// "spotps-" and a digest of the setup.
std::string Ec2TemplateName(const MachineSetup& setup);

/// CreateLaunchTemplate. The template carries the tags of the request it was first made for.
AwsForm Ec2TemplateForm(const RentRequest& request, const Ec2Facts& facts);

/// CreateFleet: one machine, dead when it shuts down, with its tags and those of its disks.
AwsForm Ec2FleetForm(const RentRequest& request, const Ec2Facts& facts);

/// RunInstances of the first pool, for a trial run: the only call that EC2 checks as a whole
/// without making anything. No template is needed.
AwsForm Ec2TrialForm(const RentRequest& request, const Ec2Facts& facts);

/// A filter a tag.
void AddTagFilters(const std::map<std::string, std::string>& tags, AwsForm* form);

}  // namespace ps::provisioner
