#include "psctl/commands.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "ps/base/check.h"
#include "ps/base/text.h"
#include "psctl/cli/command_line.h"
#include "psctl/plan/plan_command.h"
#include "psctl/runs/fleet_command.h"
#include "run/planning/plan_arguments.h"
#include "tests/fuzz/targets.h"

namespace ps::fuzz {
namespace {

std::vector<std::string> Lines(std::span<const uint8_t> input) {
  std::vector<std::string> lines = {""};
  for (const uint8_t byte : input) {
    if (byte == '\n') {
      lines.emplace_back();
    } else if (byte != 0) {  // an argument has none
      lines.back().push_back(static_cast<char>(byte));
    }
  }
  return lines;
}

/// One line of printable text, for the user.
void CheckMisuse(const Status& status) {
  const std::string_view text = status.message();
  PS_CHECK(status.code() == StatusCode::kInvalidArgument) << status;
  PS_CHECK(!text.empty() && Printable(text) == text) << status;
}

/// A list of arguments of one kind is misuse, or has values that `is_good` takes.
template <typename T, typename F>
bool CheckAll(const Result<std::vector<T>>& values, F is_good) {
  if (!values.ok()) {
    CheckMisuse(values.status());
    return false;
  }
  PS_CHECK(!values->empty() && std::ranges::all_of(*values, is_good));
  return true;
}

}  // namespace

bool FuzzArguments(std::span<const uint8_t> input) {
  const std::vector<std::string> texts = Lines(input);
  const Result<double> seconds = run::ParseDuration("--within", texts.front());
  if (seconds.ok()) {
    PS_CHECK(std::isfinite(*seconds) && *seconds > 0) << *seconds;
  } else {
    CheckMisuse(seconds.status());
  }
  bool is_taken = seconds.ok();
  is_taken |=
      CheckAll(run::ParseTypeCounts("--fleet", texts), [](const provisioner::TypeCount& type) {
        return !type.instance_type.empty() && type.count >= 0 && type.minibatch >= 0;
      });
  is_taken |= CheckAll(
      run::ParseTypes("--types", texts), [](const std::string& type) { return !type.empty(); });
  is_taken |= CheckAll(
      run::ParseServerRanges("--servers", texts), [](const provisioner::ServerRange& range) {
        return !range.instance_type.empty() && range.hosts_min >= 1 &&
               range.hosts_min <= range.hosts_max;
      });
  return is_taken;
}

bool FuzzCommandLine(std::span<const uint8_t> input) {
  const auto invocation = psctl::ParseCommandLine(psctl::AllCommands(), Lines(input));
  if (!invocation.ok()) {
    CheckMisuse(invocation.status());
    return false;
  }
  const psctl::Invocation* const command = invocation->get();
  if (const auto* notice =
          dynamic_cast<const psctl::InvocationOf<psctl::NoticeCommand>*>(command)) {
    const double grace_s = notice->values.grace_s;
    PS_CHECK(grace_s > 0 && grace_s <= 3600) << grace_s;
  }
  if (const auto* plan = dynamic_cast<const psctl::InvocationOf<run::PlanCommand>*>(command)) {
    const double budget_usd = plan->values.budget_usd;
    PS_CHECK(!(budget_usd < 0) && !std::isnan(budget_usd)) << budget_usd;
  }
  return true;
}

}  // namespace ps::fuzz
