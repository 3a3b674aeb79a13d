#include "psctl/traces/claims_command.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "provisioner/claims/claims.h"
#include "ps/base/file.h"
#include "ps/base/text.h"
#include "psctl/cli/arguments.h"
#include "psctl/cli/command_line.h"
#include "psctl/traces/forecast_command.h"
#include "psctl/traces/replay_command.h"
#include "psctl/traces/replay_trace.h"
#include "psctl/view/claims_view.h"
#include "run/directory/files.h"
#include "run/planning/planning_files.h"

namespace ps::psctl {
namespace {

using provisioner::CheckedClaim;
using provisioner::Claim;

// One of the shipped files that claims are made of.
constexpr char kShippedFile[] = "tests/data/parcae/costs.csv";
constexpr double kMinuteS = 60;

/// Parcae's profiles end there: of more machines so many are taken.
constexpr uint32_t kMachinesMost = 32;
/// Its forecast looks back and ahead for 12 minutes each.
constexpr size_t kMinutesLeast = 60;

Result<provisioner::ClaimTrace> ReadTrace(const std::string& path, double unit_s, GapRule gaps) {
  PS_ASSIGN(const std::string text, ReadFile(path));
  PS_ASSIGN(const AvailabilityTrace trace, ParseTrace(text, path, unit_s, gaps));
  PS_ASSIGN(std::vector<uint32_t> minutes, CountsOf(trace, kMinuteS));
  if (minutes.size() < kMinutesLeast) {
    return Status::InvalidArgument(fmt::format(
        "{}: {} minutes are too few, claims are checked on an hour or more; are its times in "
        "--unit "
        "{}?",
        Printable(path),
        minutes.size(),
        unit_s == 1 ? "ms or h" : "s"));
  }
  minutes.resize(std::min(minutes.size(), provisioner::kClaimMinutesMax));
  for (uint32_t& count : minutes) {
    count = std::min(count, kMachinesMost);
  }
  return provisioner::ClaimTrace{run::BaseName(path), std::move(minutes)};
}

Result<std::vector<CheckedClaim>> Check(const ClaimsCommand& command) {
  const Result<std::string> root = run::FindShipped(kShippedFile);
  if (!root.ok()) {
    return Status::NotFound(fmt::format(
        "no published figures: {}; install spotps, or call psctl in its sources",
        root.status().message()));
  }
  PS_ASSIGN(const double unit_s, SecondsOfUnit(command.unit));
  PS_ASSIGN(const GapRule gaps, GapRuleOf(command.gaps));
  std::vector<provisioner::ClaimTrace> traces;
  for (const std::string& path : command.traces) {
    PS_ASSIGN(traces.emplace_back(), ReadTrace(path, unit_s, gaps));
  }
  std::vector<CheckedClaim> checked;
  for (const Claim& claim :
       AllClaims({.data = *root + "/tests/data", .configs = *root + "/configs"}, traces)) {
    if (command.seed.empty() || claim.seed == command.seed) {
      PS_ASSIGN(checked.emplace_back(), CheckClaim(claim));
    }
  }
  return checked;
}

void AddArguments(ClaimsCommand* command, Arguments* arguments) {
  const std::vector<std::string> seeds = provisioner::ClaimSeeds();
  arguments->Add("SEED", &command->seed, "Whose claims, one of " + Join(seeds) + "; all if absent");
  arguments->Check([command, seeds] {
    if (!command->seed.empty()) {
      PS_TRY(CheckOneOf("seed", command->seed, {seeds.begin(), seeds.end()}));
    }
    const bool has_parcae = command->seed.empty() || command->seed == "parcae";
    return command->traces.empty() || has_parcae
               ? Status::Ok()
               : Status::InvalidArgument(
                     "--trace is for the claims of parcae, which are made of traces");
  });
  arguments
      ->Add(
          "--trace",
          &command->traces,
          "Parcae's claims on this trace, too: its first 24 hours, 32 machines at most")
      .Value("FILE");
  arguments->Add("--unit", &command->unit, "Of the traces' times: ms, s or h; ms if absent");
  arguments->Add(
      "--gaps",
      &command->gaps,
      "Times that a polled trace lacks: hold, none or cut; refused if absent");
  arguments->Add("--json", &command->is_json, "Print JSON");
}

int Run(const ClaimsCommand& command, const Session& session) {
  const Result<std::vector<CheckedClaim>> claims = Check(command);
  if (!claims.ok()) {
    return run::Misuse(session.console, claims.status());
  }
  session.console.out(command.is_json ? ClaimsJson(*claims) : RenderClaims(*claims));
  const bool is_worse = std::ranges::any_of(*claims, &CheckedClaim::is_worse_than_recorded);
  return is_worse ? run::kExitFailed : run::kExitOk;
}

}  // namespace

constinit const Command kClaims = {
    .path = "claims",
    .group = Group::kMeasure,
    .help = "Check what other systems claim, with their published figures",
    .examples =
        {{{"psctl claims", "published, ours and a verdict, for every claim"},
          {"psctl claims parcae --trace trace.csv", "Parcae's, on a trace of yours, too"}}},
    .declare = Declare<ClaimsCommand, AddArguments, Run>};

}  // namespace ps::psctl
