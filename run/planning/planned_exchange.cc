#include "run/planning/planned_exchange.h"

#include <fmt/core.h>

#include <cmath>
#include <optional>
#include <vector>

#include "provisioner/model/exchange.h"
#include "provisioner/profile/exchange_penalty.h"
#include "provisioner/profile/local_steps.h"
#include "ps/base/text.h"
#include "run/report/job_memory.h"

namespace ps::run {
namespace {

constexpr double kPushFactorMax = 1000;

// Deviations of the log of the samples to a loss where nobody measured what an exchange costs: of
// each encoding, and of each doubling of the local steps. Assumed, no fit of measured jobs.
constexpr double kEncodingDoubt = 0.1;
constexpr double kDoublingDoubt = 0.1;

/// Bytes of an exchange where they are not the profile's.
Status UseBytes(const PlanningCommand& command, Planning* planning) {
  const proto::JobProfile& profile = planning->profile;
  provisioner::ExchangeChange& change = planning->input.models.exchange;
  if (planning->scheme.push != profile.push) {
    PS_ASSIGN(change.push_bytes, provisioner::PushBytes(profile, planning->scheme.push));
  }
  if (planning->scheme.pull != profile.pull) {
    PS_ASSIGN(change.pull_bytes, provisioner::PullBytes(profile, planning->scheme.pull));
  }
  if (command.push_factor == 0) {
    return Status::Ok();
  }
  if (!(command.push_factor > 0 && command.push_factor <= kPushFactorMax)) {
    return Status::InvalidArgument(PushFactorWanted());
  }
  const double push_bytes = profile.push_bytes > 0 ? profile.push_bytes : profile.parameter_bytes;
  change.push_bytes = command.push_factor * push_bytes;
  change.samples_deviation = kEncodingDoubt;
  planning->notes.push_back(
      "bytes of a push are reckoned, and what an encoding of so many does to the loss is taken as "
      "nothing");
  return Status::Ok();
}

/// By what was measured of this mode.
void UsePenalty(double penalty, Planning* planning) {
  const proto::JobProfile& profile = planning->profile;
  const proto::ExchangeScheme& scheme = planning->scheme;
  const proto::ExchangeScheme measured = profile.Scheme();
  provisioner::ExchangeChange& change = planning->input.models.exchange;
  change.samples = penalty;
  change.samples_workers = provisioner::kPenaltyWorkers;
  planning->notes.push_back(fmt::format(
      "a loss takes {:.2f} times the samples with {} that it takes with {}, as measured in mode "
      "{} with {} workers",
      penalty,
      proto::SchemeText(scheme, measured),
      proto::SchemeText(measured, scheme),
      planning->mode,
      provisioner::kPenaltyWorkers));
  if (!provisioner::IsMeasured(profile, scheme, planning->mode)) {
    change.samples_deviation = std::hypot(change.samples_deviation, kEncodingDoubt);
  }
}

/// Where nobody measured encodings, local steps or either.
void UseNoPenalty(Planning* planning) {
  const proto::JobProfile& profile = planning->profile;
  const proto::ExchangeScheme& scheme = planning->scheme;
  const proto::ExchangeScheme measured = profile.Scheme();
  provisioner::ExchangeChange& change = planning->input.models.exchange;
  const proto::ExchangeScheme only_steps = {scheme.local_steps, measured.push, measured.pull};
  const auto of_steps = provisioner::PenaltyOf(profile, only_steps, planning->mode);
  change.samples = of_steps.value_or(1);
  const auto doubt = [&change](double deviation) {
    change.samples_deviation = std::hypot(change.samples_deviation, deviation);
  };
  if (scheme != only_steps) {
    doubt(scheme.push == measured.push ? 0 : kEncodingDoubt);
    doubt(scheme.pull == measured.pull ? 0 : kEncodingDoubt);
    planning->notes.push_back(fmt::format(
        "what {} does to the loss was not measured and is taken as nothing, with wider ranges; "
        "psctl profile{}{} measures it",
        proto::SchemeText(scheme, only_steps),
        scheme.push == measured.push ? "" : " --push " + scheme.push,
        scheme.pull == measured.pull ? "" : " --pull " + scheme.pull));
  }
  if (of_steps) {
    change.samples_workers =
        scheme.local_steps == measured.local_steps ? 0 : provisioner::kPenaltyWorkers;
    return;
  }
  doubt(
      kDoublingDoubt *
      std::abs(std::log2(static_cast<double>(scheme.local_steps) / measured.local_steps)));
  planning->notes.push_back(fmt::format(
      "the profile was measured with {} local steps: time and bytes with {} are reckoned, and "
      "what they cost in samples to a loss was not measured and is taken as nothing, with wider "
      "ranges; psctl profile --local-steps {},{} measures it",
      profile.local_steps,
      scheme.local_steps,
      profile.local_steps,
      scheme.local_steps));
}

}  // namespace

std::string LocalStepsWanted(const std::string& flag) {
  return fmt::format(
      "{} wants a number from 1 to {}, as in {} 50", flag, provisioner::kLocalStepsMax, flag);
}

std::string PushFactorWanted() {
  return fmt::format(
      "--push-bytes-factor wants a number above 0, up to {}, as in --push-bytes-factor 0.25",
      kPushFactorMax);
}

Status ChooseScheme(const PlanningCommand& command, Planning* planning) {
  if (command.local_steps < 0 || command.local_steps > provisioner::kLocalStepsMax) {
    return Status::InvalidArgument(LocalStepsWanted("--local-steps"));
  }
  proto::ExchangeScheme& scheme = planning->scheme;
  scheme = planning->own;
  scheme.local_steps = command.local_steps > 0 ? command.local_steps : scheme.local_steps;
  if (!command.push.empty()) {
    PS_ASSIGN(scheme.push, provisioner::EncodingName(command.push));
  }
  if (!command.pull.empty()) {
    PS_ASSIGN(scheme.pull, provisioner::EncodingName(command.pull));
  }
  return Status::Ok();
}

Status UseMemory(const PreparedJob& job, Planning* planning) {
  constexpr double kBytesPerMib = 1024.0 * 1024;
  PS_ASSIGN(const proto::JobConfig config, provisioner::WithScheme(job.config, planning->scheme));
  const proto::ServerConfig& servers = config.servers;
  planning->held_bytes_max = kBytesPerMib * servers.held_mib * servers.shards_per_server;
  AddServerMemory(config, job.parts.model, &planning->profile);
  for (proto::WorkerProfile& worker : planning->profile.workers) {
    const proto::InstanceType* const type = planning->catalog.Find(worker.instance_type);
    if (type != nullptr) {
      const bool is_cpu = type->device == "cpu";
      AddWorkerMemory(
          config,
          job.parts.model,
          {.is_host = is_cpu, .devices = is_cpu ? 0 : type->devices},
          &worker);
    }
  }
  return Status::Ok();
}

Status UseExchange(const PlanningCommand& command, Planning* planning) {
  PS_TRY(UseBytes(command, planning));
  const proto::JobProfile& profile = planning->profile;
  const proto::ExchangeScheme& scheme = planning->scheme;
  provisioner::ExchangeChange& change = planning->input.models.exchange;
  change.local_steps = scheme.local_steps;
  change.held_bytes_max = provisioner::PullsDifferences(scheme.pull) ? planning->held_bytes_max : 0;
  if (scheme == profile.Scheme()) {
    return Status::Ok();
  }
  if (const auto penalty = provisioner::PenaltyOf(profile, scheme, planning->mode); penalty) {
    UsePenalty(*penalty, planning);
  } else {
    UseNoPenalty(planning);
  }
  return Status::Ok();
}

}  // namespace ps::run
