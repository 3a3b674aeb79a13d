#include "provisioner/provider/ec2_replies.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include "provisioner/provider/aws_faults.h"
#include "provisioner/provider/request_check.h"
#include "ps/base/text.h"
#include "ps/http/date.h"

namespace ps::provisioner {
namespace {

std::optional<MachineState> StateOf(std::string_view name) {
  constexpr std::pair<std::string_view, MachineState> kStates[] = {
      {"pending", MachineState::kStarting},
      {"running", MachineState::kRunning},
      {"shutting-down", MachineState::kEnding},
      {"stopping", MachineState::kEnding},
      {"stopped", MachineState::kEnding},
      {"terminated", MachineState::kGone}};
  for (const auto& [text, state] : kStates) {
    if (name == text) {
      return state;
    }
  }
  return std::nullopt;
}

int64_t MicrosOf(std::string_view rfc3339) {
  return ParseRfc3339(std::string(rfc3339)).value_or(0) * 1'000'000;
}

bool ReadUsd(std::string_view text, double* usd) {
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), *usd);
  return parsed.ec == std::errc() && parsed.ptr == text.data() + text.size() && *usd >= 0 &&
         std::isfinite(*usd);
}

/// Linux without a price of its own for the hour.
constexpr Duration kSpotFreeWithin = std::chrono::hours(1);

/// The time in "User initiated (2026-11-28 20:15:16 GMT)"; 0: it says none.
int64_t TransitionMicros(std::string_view reason) {
  constexpr size_t kTimeSize = 19;
  const size_t open = reason.rfind('(');
  if (open == reason.npos || reason.size() < open + 1 + kTimeSize ||
      reason.substr(open + 1 + kTimeSize) != " GMT)") {
    return 0;
  }
  std::string time(reason.substr(open + 1, kTimeSize));
  time[10] = 'T';
  return MicrosOf(time + "Z");
}

std::string Shown(std::string_view text) {
  return Printable(Clip(text, 200));
}

Result<Machine> ReadInstance(const aws::XmlElement& item) {
  Machine machine;
  machine.id = item.TextAt("instanceId");
  const std::string_view state_name = item.TextAt("instanceState/name");
  const std::optional<MachineState> state = StateOf(state_name);
  if (machine.id.empty() || !state) {
    return Status::Corruption(
        fmt::format("an instance \"{}\" in state \"{}\"", Shown(machine.id), Shown(state_name)));
  }
  machine.state = *state;
  machine.pool.type = item.TextAt("instanceType");
  machine.pool.zone = item.TextAt("placement/availabilityZone");
  machine.pool.is_spot = item.TextAt("instanceLifecycle") == "spot";
  machine.address = item.TextAt("ipAddress");
  machine.private_address = item.TextAt("privateIpAddress");
  machine.started_us = MicrosOf(item.TextAt("launchTime"));
  if (!IsThere(machine.state)) {
    machine.ended_us = TransitionMicros(item.TextAt("reason"));
  }
  const std::string_view code = item.TextAt("stateReason/code");
  machine.is_revoked =
      code == "Server.SpotInstanceTermination" || code == "Server.SpotInstanceShutdown";
  machine.free_within = machine.pool.is_spot ? kSpotFreeWithin : Duration();
  machine.why = Shown(item.TextAt("stateReason/message"));
  for (const aws::XmlElement& tag : item.ChildrenAt("tagSet")) {
    machine.tags[std::string(tag.TextAt("key"))] = tag.TextAt("value");
  }
  TakeOwnTags(&machine);
  return machine;
}

/// The pool that an override of the fleet stands for; a zone that is not said is found by its
/// subnet.
Pool PoolOf(const aws::XmlElement& item, const RentRequest& request, const Ec2Facts& facts) {
  Pool pool;
  pool.is_spot = request.pools.front().is_spot;
  const std::string at = "launchTemplateAndOverrides/overrides/";
  pool.type = item.TextAt(at + "instanceType");
  pool.zone = item.TextAt(at + "availabilityZone");
  const std::string_view subnet = item.TextAt(at + "subnetId");
  for (const auto& [zone, id] : facts.subnet_of_zone) {
    if (pool.zone.empty() && id == subnet) {
      pool.zone = zone;
    }
  }
  return pool;
}

CallEnd FleetFault(const aws::XmlElement& item) {
  const AwsError error = {
      .http_status = 0,
      .code = std::string(item.TextAt("errorCode")),
      .message = std::string(item.TextAt("errorMessage"))};
  CallEnd end;
  end.fault = AwsFaultOf(error);
  const bool is_template_lost = error.code.starts_with("InvalidLaunchTemplate");
  if (end.fault == CallFault::kUnclear || end.fault == CallFault::kThrottled || is_template_lost) {
    end.fault = CallFault::kNoStock;  // the next token may be lucky with the same pool
  }
  end.message = "ec2:CreateFleet: " + AwsErrorText(error);
  if (end.fault == CallFault::kDenied) {
    end.message = fmt::format(
        "ec2:CreateFleet has no permission {}: {}",
        MissingPermission(error, "ec2:RunInstances"),
        AwsErrorText(error));
  }
  return end;
}

/// Among several faults, the one that leaves most to hope for: stock comes back, and with a wrong
/// type the others may do.
CallEnd OneOf(const std::vector<PoolFault>& faults) {
  constexpr CallFault kOrder[] = {
      CallFault::kNoStock,
      CallFault::kQuota,
      CallFault::kDenied,
      CallFault::kCredentials,
      CallFault::kMismatch,
      CallFault::kRefused};
  for (const CallFault fault : kOrder) {
    const auto it = std::find_if(faults.begin(), faults.end(), [&](const PoolFault& pool) {
      return pool.end.fault == fault;
    });
    if (it != faults.end()) {
      CallEnd end = it->end;
      end.message = fmt::format(
          "no machine from {} pools; {}: {}", faults.size(), PoolText(it->pool), end.message);
      return end;
    }
  }
  return {
      .fault = CallFault::kNoStock, .message = "ec2:CreateFleet gave no machine, and no reason"};
}

}  // namespace

Result<std::vector<Machine>> ReadInstances(const aws::XmlElement& reply) {
  std::vector<Machine> machines;
  for (const aws::XmlElement& reservation : reply.ChildrenAt("reservationSet")) {
    for (const aws::XmlElement& item : reservation.ChildrenAt("instancesSet")) {
      PS_ASSIGN(Machine machine, ReadInstance(item));
      machines.push_back(std::move(machine));
    }
  }
  return machines;
}

RentReply ReadFleet(
    const aws::XmlElement& reply, const RentRequest& request, const Ec2Facts& facts) {
  RentReply rent;
  for (const aws::XmlElement& item : reply.ChildrenAt("errorSet")) {
    rent.pool_faults.push_back({.pool = PoolOf(item, request, facts), .end = FleetFault(item)});
  }
  for (const aws::XmlElement& item : reply.ChildrenAt("fleetInstanceSet")) {
    const std::vector<aws::XmlElement>& ids = item.ChildrenAt("instanceIds");
    if (ids.empty() || ids.front().text.empty() || rent.machine) {
      continue;
    }
    Machine machine;
    machine.id = ids.front().text;
    machine.token = request.token;
    machine.tags = request.tags;
    machine.pool = PoolOf(item, request, facts);
    if (const std::string_view type = item.TextAt("instanceType"); !type.empty()) {
      machine.pool.type = type;
    }
    rent.machine = std::move(machine);
  }
  if (!rent.machine) {
    rent.end = OneOf(rent.pool_faults);
    if (rent.pool_faults.empty()) {
      rent.pool_faults = FaultOfAll(request, rent.end);
    }
  }
  return rent;
}

Result<std::vector<PoolPrice>> ReadPrices(const aws::XmlElement& reply) {
  std::vector<PoolPrice> prices;
  for (const aws::XmlElement& item : reply.ChildrenAt("spotPriceHistorySet")) {
    PoolPrice price;
    price.pool.type = item.TextAt("instanceType");
    price.pool.zone = item.TextAt("availabilityZone");
    price.pool.is_spot = true;
    price.since_us = MicrosOf(item.TextAt("timestamp"));
    const std::string_view text = item.TextAt("spotPrice");
    if (!ReadUsd(text, &price.usd_per_hour)) {
      return Status::Corruption(fmt::format("a price of \"{}\"", Shown(text)));
    }
    prices.push_back(std::move(price));
  }
  return prices;
}

Result<std::optional<StablePrice>> ReadStablePrice(const JsonValue& reply) {
  const JsonValue* const list =
      reply.kind == JsonValue::Kind::kObject ? reply.Find("PriceList") : nullptr;
  if (list == nullptr || list->kind != JsonValue::Kind::kList) {
    return Status::Corruption("no PriceList");
  }
  for (const JsonValue& text : list->children) {
    // Each product is a document of its own, as a text.
    const auto product = ParseJson(text.text, "a product");
    const JsonValue* const terms = product.ok() && product->kind == JsonValue::Kind::kObject
                                       ? product->At("terms.OnDemand")
                                       : nullptr;
    if (terms == nullptr || terms->kind != JsonValue::Kind::kObject) {
      continue;
    }
    for (const JsonValue& term : terms->children) {
      const JsonValue* const dimensions =
          term.kind == JsonValue::Kind::kObject ? term.Find("priceDimensions") : nullptr;
      if (dimensions == nullptr || dimensions->kind != JsonValue::Kind::kObject) {
        continue;
      }
      for (const JsonValue& dimension : dimensions->children) {
        StablePrice price;
        const bool is_object = dimension.kind == JsonValue::Kind::kObject;
        const JsonValue* const usd = is_object ? dimension.At("pricePerUnit.USD") : nullptr;
        const JsonValue* const unit = is_object ? dimension.Find("unit") : nullptr;
        if (usd == nullptr || unit == nullptr || unit->text != "Hrs" ||
            !ReadUsd(usd->text, &price.usd_per_hour)) {
          continue;
        }
        const JsonValue* const since = term.Find("effectiveDate");
        price.since_us = since == nullptr ? 0 : MicrosOf(since->text);
        if (price.usd_per_hour > 0) {
          return std::optional(price);
        }
      }
    }
  }
  return std::optional<StablePrice>();
}

std::vector<PoolFault> FaultOfAll(const RentRequest& request, const CallEnd& end) {
  std::vector<PoolFault> faults;
  if (end.fault == CallFault::kNoStock || end.fault == CallFault::kQuota) {
    for (const Pool& pool : request.pools) {
      faults.push_back({.pool = pool, .end = end});
    }
  }
  return faults;
}

}  // namespace ps::provisioner
