#include <cmath>
#include <string>

#include "provisioner/provider/aws_faults.h"
#include "provisioner/provider/ec2_replies.h"
#include "provisioner/provider/gce_faults.h"
#include "provisioner/provider/gce_replies.h"
#include "ps/aws/xml.h"
#include "ps/base/check.h"
#include "ps/base/text.h"
#include "tests/fuzz/targets.h"

namespace ps::fuzz {
namespace {

using namespace provisioner;

void CheckLineOf(const Status& status) {
  const std::string_view message = status.message();
  PS_CHECK(!message.empty() && message.find('\n') == message.npos) << message;
}

void CheckMachine(const Machine& machine) {
  PS_CHECK(!machine.id.empty()) << "a machine without a name can't be ended";
  PS_CHECK(Printable(machine.why) == machine.why) << machine.why;
  for (const auto& [name, value] : machine.tags) {
    PS_CHECK(!name.starts_with("spotps-own-")) << name;
  }
}

void CheckEnd(const CallEnd& end) {
  PS_CHECK(end.ok() || Printable(end.message) == end.message) << end.message;
}

bool FuzzEc2(std::string_view text) {
  const auto xml = aws::ParseXml(text);
  if (!xml.ok()) {
    PS_CHECK(xml.status().code() == StatusCode::kCorruption) << xml.status();
    CheckLineOf(xml.status());
    return false;
  }
  const auto machines = ReadInstances(*xml);
  if (machines.ok()) {
    for (const Machine& machine : *machines) {
      CheckMachine(machine);
    }
  }
  const RentRequest request = {
      .token = "t",
      .pools = {{.type = "a", .zone = "z", .is_spot = true}},
      .setup = {},
      .tags = {}};
  const RentReply rent =
      ReadFleet(*xml, request, {.subnet_of_zone = {{"z", "s"}}, .root_device = ""});
  PS_CHECK(rent.machine.has_value() == rent.end.ok()) << "a machine, or why there is none";
  PS_CHECK(rent.end.fault != CallFault::kUnclear && rent.end.fault != CallFault::kThrottled)
      << "the token would repeat it";
  PS_CHECK(rent.machine || !rent.pool_faults.empty()) << "no pool is said to be at fault";
  CheckEnd(rent.end);
  if (rent.machine) {
    CheckMachine(*rent.machine);
  }
  const auto prices = ReadPrices(*xml);
  if (prices.ok()) {
    for (const PoolPrice& price : *prices) {
      PS_CHECK(std::isfinite(price.usd_per_hour) && price.usd_per_hour >= 0) << "no price";
    }
  }
  const AwsError error = {
      400, std::string(xml->TextAt("Code")), std::string(xml->TextAt("Message"))};
  PS_CHECK(Printable(AwsErrorText(error)) == AwsErrorText(error)) << "not for a terminal";
  PS_CHECK(Printable(MissingPermission(error, "a:b")) == MissingPermission(error, "a:b"));
  return true;
}

bool FuzzGce(std::string_view text) {
  const auto json = ParseJson(text, "reply");
  if (!json.ok()) {
    CheckLineOf(json.status());
    return false;
  }
  const auto machines = ReadGceInstances(*json);
  if (machines.ok()) {
    for (const GceMachine& entry : *machines) {
      CheckMachine(entry.machine);
    }
  }
  const auto one = ReadGceInstance(*json);
  if (one.ok()) {
    CheckMachine(one->machine);
  }
  const auto price = ReadStablePrice(*json);
  if (price.ok() && price->has_value()) {
    const double usd = (*price)->usd_per_hour;
    PS_CHECK(std::isfinite(usd) && usd > 0) << usd;
  }
  for (const std::string& id : ReadGcePreemptions(*json)) {
    PS_CHECK(id.find('/') != id.npos) << id;
  }
  const GceError error = ReadGceError(*json, 400);
  PS_CHECK(Printable(GceErrorText(error)) == GceErrorText(error)) << "not for a terminal";
  PS_CHECK(Printable(GcePermission(error, "a.b")) == GcePermission(error, "a.b"));
  return true;
}

}  // namespace

bool FuzzCloudReply(std::span<const uint8_t> input) {
  const std::string_view text = Text(input);
  return text.starts_with('{') ? FuzzGce(text) : FuzzEc2(text);
}

}  // namespace ps::fuzz
