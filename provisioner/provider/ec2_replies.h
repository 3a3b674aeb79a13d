#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "provisioner/provider/ec2_forms.h"
#include "provisioner/provider/provider.h"
#include "ps/aws/xml.h"
#include "ps/base/status.h"
#include "ps/json/json_value.h"

namespace ps::provisioner {

// What EC2 answers. Takes any tree.

/// The machines of a page of DescribeInstances. Errors: kCorruption (one without id or state).
Result<std::vector<Machine>> ReadInstances(const aws::XmlElement& reply);

/// CreateFleet's reply: a machine, or why each pool has none. The fleet's own failures are
/// definite: what it did not give it never will, so none of them is kUnclear or kThrottled.
RentReply ReadFleet(
    const aws::XmlElement& reply, const RentRequest& request, const Ec2Facts& facts);

/// A page of DescribeSpotPriceHistory. Errors: kCorruption.
Result<std::vector<PoolPrice>> ReadPrices(const aws::XmlElement& reply);

/// The price on demand in a reply of the price list to one type, by the hour; nothing when it has
/// none. Errors: kCorruption.
struct StablePrice {
  double usd_per_hour = 0;
  int64_t since_us = 0;
};

Result<std::optional<StablePrice>> ReadStablePrice(const JsonValue& reply);

/// The fault of a call that failed, as that of each of its pools: EC2 tells it of the whole call or
/// of each pool, as it likes.
std::vector<PoolFault> FaultOfAll(const RentRequest& request, const CallEnd& end);

}  // namespace ps::provisioner
