#pragma once

#include <string>
#include <vector>

#include "provisioner/planner/plan_setup.h"
#include "ps/base/status.h"

namespace ps::run {

// Values of the flags of plan and predict. Errors are kInvalidArgument, one line that says what was
// expected.

/// "40m", "2h", "1h30m" or "1h30", "90s", "2400": seconds. Above 0; longer units come first.
Result<double> ParseDuration(const std::string& flag, const std::string& text);
/// The same, and "0" or "0s".
Result<double> ParseDurationOrZero(const std::string& flag, const std::string& text);

/// "g4dn.4xlarge=2,g3.8xlarge:1024=4", several times. A type with a minibatch twice is an error.
Result<std::vector<provisioner::TypeCount>> ParseTypeCounts(
    const std::string& flag, const std::vector<std::string>& texts);

/// The same with ages, "g4dn.4xlarge=2@3h,g4dn.4xlarge=1@10m,g3.8xlarge=1": without one they count
/// as new. A type with a minibatch and an age twice is an error.
Result<std::vector<provisioner::TypeCount>> ParseHeld(
    const std::string& flag, const std::vector<std::string>& texts);

/// "g4dn.4xlarge,g3.8xlarge", several times. A type twice is an error.
Result<std::vector<std::string>> ParseTypes(
    const std::string& flag, const std::vector<std::string>& texts);

/// "int8,topk:0.01", several times, as a job names them. One that comes twice counts once.
Result<std::vector<std::string>> ParseEncodings(
    const std::string& flag, const std::vector<std::string>& texts);

/// "m5.xlarge=1..4", "m5.xlarge=2", "m5.xlarge" (1), several times.
Result<std::vector<provisioner::ServerRange>> ParseServerRanges(
    const std::string& flag, const std::vector<std::string>& texts);

/// "P=64,Standard:on-demand=32", several times: vCPUs of a family, of spot machines unless it says
/// otherwise. A family twice in a market is an error.
Result<std::vector<provisioner::FamilyQuota>> ParseFamilyQuotas(
    const std::string& flag, const std::vector<std::string>& texts);

/// "spot", "on-demand", "both"
Result<provisioner::MarketChoice> ParseMarket(const std::string& text);

}  // namespace ps::run
