#include "psctl/plan/profile_command.h"

#include <fmt/core.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

#include "provisioner/model/profile_fit.h"
#include "provisioner/profile/exchange_penalty.h"
#include "provisioner/profile/fingerprint.h"
#include "provisioner/profile/local_steps.h"
#include "provisioner/profile/profile_merge.h"
#include "provisioner/profile/profile_runs.h"
#include "ps/base/text.h"
#include "ps/proto/job/device_choice.h"
#include "psctl/cli/arguments.h"
#include "psctl/plan/child_runs.h"
#include "psctl/view/profile_view.h"
#include "run/planning/plan_arguments.h"
#include "run/planning/planning_files.h"
#include "run/planning/prepared_job.h"
#include "run/report/job_memory.h"
#include "run/report/tables.h"

namespace ps::psctl {
namespace {

constexpr double kBytesPerGib = 1024.0 * 1024 * 1024;
/// A worker leaves the machine this share of its memory.
constexpr double kMemoryShare = 0.8;
/// A fit of memory to minibatches with a larger error is not used.
constexpr double kMemoryResidualMax = 0.2;
constexpr int kMinibatchMax = 65536;  // of the job file
/// How much longer one worker's loss curve is than a run that measures speed.
constexpr double kCurveLength = 2;

/// The largest process that has ended below this one, so far.
double PeakMemoryGib() {
  rusage usage{};
  ::getrusage(RUSAGE_CHILDREN, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024 / kBytesPerGib;
}

double MachineMemoryGib() {
  return static_cast<double>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<double>(::sysconf(_SC_PAGE_SIZE)) / kBytesPerGib;
}

/// Sets the largest minibatch that fits, when the peaks of ascending minibatches tell it.
void AddMemory(
    const std::vector<provisioner::MemorySample>& samples,
    const std::string& type,
    proto::JobProfile* profile) {
  const auto fit = provisioner::FitMemory(samples);
  if (!fit.ok() || fit->residual > kMemoryResidualMax) {
    return;
  }
  const int largest =
      std::min(fit->LargestMinibatch(kMemoryShare * MachineMemoryGib()), kMinibatchMax);
  for (proto::WorkerProfile& worker : profile->workers) {
    if (worker.instance_type == type) {
      worker.minibatch_max = std::max(largest, worker.minibatch);
    }
  }
}

/// What the job's processes take by its model. What `auto` found on this machine is not told.
void AddModelMemory(const run::PreparedJob& job, proto::JobProfile* profile) {
  run::AddServerMemory(job.config, job.parts.model, profile);
  const Result<proto::DeviceChoice> choice =
      proto::ParseDevice(job.config.workers.empty() ? "cpu" : job.config.workers.front().device);
  if (!choice.ok() || choice->kind == proto::DeviceKind::kAuto) {
    return;
  }
  const bool is_host = choice->kind == proto::DeviceKind::kCpu;
  const auto devices = static_cast<int64_t>(std::max<size_t>(choice->numbers.size(), 1));
  for (proto::WorkerProfile& worker : profile->workers) {
    run::AddWorkerMemory(
        job.config,
        job.parts.model,
        {.is_host = is_host, .devices = is_host ? 0 : devices},
        &worker);
  }
}

/// The line of what a run printed that says what does not fit or went wrong, or else the last one.
std::string WhyItFailed(std::string_view output) {
  std::istringstream lines{std::string(output)};
  std::string why = "the run failed";
  for (std::string line; std::getline(lines, line);) {
    if (line.find(" does not fit ") != std::string_view::npos ||
        line.find(": failed after ") != std::string_view::npos) {
      return line;
    }
    why = line.empty() ? why : line;
  }
  return why;
}

/// The numbers of --local-steps, or else the job's own.
Result<std::vector<int>> StepsToCompare(
    const ProfileCommand& command, const proto::JobConfig& job) {
  std::vector<int> steps;
  PS_ASSIGN(
      const std::vector<std::string> given, run::ParseTypes("--local-steps", command.local_steps));
  for (const std::string& text : given) {
    int number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size() || number < 1 ||
        number > provisioner::kLocalStepsMax) {
      return Status::InvalidArgument(fmt::format(
          "--local-steps wants numbers from 1 to {}, as in --local-steps 1,8,50; got '{}'",
          provisioner::kLocalStepsMax,
          Printable(text)));
    }
    steps.push_back(number);
  }
  return steps.empty() ? std::vector<int>{static_cast<int>(job.train.local_steps)} : steps;
}

/// What the flags name, each with each, behind the job's own; nothing where they name no other.
/// Errors: kInvalidArgument, also for what no job may have.
Result<std::vector<proto::ExchangeScheme>> SchemesToCompare(
    const ProfileCommand& command, const proto::JobConfig& job) {
  const proto::ExchangeScheme own = provisioner::SchemeOf(job);
  PS_ASSIGN(const std::vector<int> steps, StepsToCompare(command, job));
  PS_ASSIGN(std::vector<std::string> pushes, run::ParseEncodings("--push", command.push));
  PS_ASSIGN(std::vector<std::string> pulls, run::ParseEncodings("--pull", command.pull));
  pushes = pushes.empty() ? std::vector<std::string>{own.push} : pushes;
  pulls = pulls.empty() ? std::vector<std::string>{own.pull} : pulls;
  std::vector<proto::ExchangeScheme> schemes = {own};
  for (const int some : steps) {
    for (const std::string& push : pushes) {
      for (const std::string& pull : pulls) {
        proto::ExchangeScheme scheme{some, push, pull};
        if (std::ranges::find(schemes, scheme) != schemes.end()) {
          continue;
        }
        PS_ASSIGN(const proto::JobConfig changed, provisioner::WithScheme(job, scheme));
        PS_TRY(proto::ParsePrintedJobConfig(proto::PrintJobConfig(changed)).status());
        schemes.push_back(std::move(scheme));
      }
    }
  }
  if (schemes.size() == 1) {
    schemes.clear();
  }
  return schemes;
}

class Measurement {
 public:
  Measurement(const ProfileCommand& command, const run::Console& console)
      : command_(command), console_(console) {}

  Result<proto::JobProfile> All(const proto::JobConfig& job, int minibatch_max) {
    const double curve_seconds = command_.curve_seconds.value_or(kCurveLength * command_.seconds);
    provisioner::CurveSettings curves{
        .processors = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)),
        .seconds = curve_seconds,
        .repeats = curve_seconds > 0 ? command_.curve_repeats : 0};
    const std::vector<provisioner::ProfileRun> runs =
        provisioner::PlanProfileRuns(job, command_.type, command_.seconds, minibatch_max);
    PS_ASSIGN(schemes_, SchemesToCompare(command_, job));
    PS_ASSIGN(
        const std::vector<provisioner::ProfileRun> penalties,
        provisioner::PlanPenaltyRuns(job, command_.type, curves, schemes_));
    Announce(runs, provisioner::PlanCurveRuns(job, command_.type, curves), penalties);
    for (const provisioner::ProfileRun& run : runs) {
      const Status measured = Measure(run);
      if (!run.may_fail || measured.code() != StatusCode::kUnavailable) {
        PS_TRY(measured);
        continue;
      }
      console_.err("      left out, since " + WhyItFailed(measured.message()) + "\n");
    }
    const proto::WorkerProfile* worker = profile_.Find(command_.type);
    if (worker == nullptr) {
      return Status::Unavailable(
          "the runs were too short to measure a step; use a larger --seconds");
    }
    AddMemory(memory_, command_.type, &profile_);
    curves.compute_s = worker->compute_s;
    curves.push_bytes = std::max(profile_.push_bytes, profile_.pull_bytes);
    for (const provisioner::ProfileRun& run :
         provisioner::PlanCurveRuns(job, command_.type, curves)) {
      PS_TRY(Measure(run));
    }
    PS_TRY(MeasurePenalties(job, curves));
    profile_.training_fingerprint = provisioner::TrainingFingerprint(job);
    return profile_;
  }

 private:
  /// The job's own exchange comes first: the others are compared with it.
  Status MeasurePenalties(const proto::JobConfig& job, const provisioner::CurveSettings& curves) {
    PS_ASSIGN(
        const std::vector<provisioner::ProfileRun> runs,
        provisioner::PlanPenaltyRuns(job, command_.type, curves, schemes_));
    std::vector<provisioner::LossAt> reference;
    for (size_t i = 0; i < runs.size(); ++i) {
      const Result<proto::JobProfile> told = Told(runs[i]);
      if (!told.ok() && told.status().code() == StatusCode::kUnavailable) {
        LeaveOut(i, WhyItFailed(told.status().message()));
        continue;
      }
      PS_TRY(told.status());
      console_.err("      " + LossText(*told) + "\n");
      const std::vector<provisioner::LossAt> curve = provisioner::LossesBySamples(*told);
      if (i == 0) {
        reference = curve;
        continue;
      }
      const Result<double> ratio = provisioner::SamplesRatio(reference, curve);
      if (!ratio.ok()) {
        LeaveOut(i, std::string(ratio.status().message()) + "; use a larger --curve-seconds");
        continue;
      }
      profile_.penalties.push_back(
          {schemes_[i].local_steps,
           schemes_[i].push,
           schemes_[i].pull,
           std::string(proto::ModeName(job.train.mode)),
           *ratio,
           std::min(reference.back().samples, curve.back().samples)});
    }
    return Status::Ok();
  }

  /// What the other runs told is not lost for it.
  void LeaveOut(size_t run, const std::string& why) const {
    console_.err(fmt::format(
        "      {} left out, since {}\n", proto::SchemeText(schemes_[run], schemes_.front()), why));
  }

  void Announce(
      const std::vector<provisioner::ProfileRun>& runs,
      const std::vector<provisioner::ProfileRun>& curves,
      const std::vector<provisioner::ProfileRun>& penalties) {
    double seconds = 0;
    for (const std::vector<provisioner::ProfileRun>* plan : {&runs, &curves, &penalties}) {
      for (const provisioner::ProfileRun& run : *plan) {
        seconds += run.config.run.seconds_max;
      }
      count_ += plan->size();
    }
    console_.err(fmt::format(
        "{}, {} of training: {} for speed, {} for loss curves{}\n",
        Plural(count_, "run"),
        FormatDuration(seconds),
        runs.size(),
        curves.size(),
        penalties.empty() ? "" : fmt::format(", {} for other exchanges", penalties.size())));
  }

  /// What a run told.
  Result<proto::JobProfile> Told(const provisioner::ProfileRun& run) {
    console_.err(fmt::format(
        "{}/{}  {}, {}\n", ++done_, count_, run.label, FormatDuration(run.config.run.seconds_max)));
    PS_ASSIGN(const ChildRun child, runner_.Run(run.config));
    PS_TRY(child.end);
    return run::LoadProfile(child.run.profile());
  }

  Status Measure(const provisioner::ProfileRun& run) {
    PS_ASSIGN(const proto::JobProfile told, Told(run));
    provisioner::AddProfileRun(run, told, &profile_);
    if (run.tells_losses) {
      console_.err("      " + LossText(told) + "\n");
      return Status::Ok();
    }
    if (!told.fleets.empty()) {
      console_.err("      " + FormatRate(told.fleets.front().samples_per_s) + " samples/s\n");
    }
    const double peak_gib = PeakMemoryGib();
    if (run.tells_memory &&
        (memory_.empty() || peak_gib > memory_.back().device_memory_gib * 1.02)) {
      memory_.push_back({static_cast<int>(run.config.workers.front().minibatch), peak_gib});
    }
    return Status::Ok();
  }

  static std::string LossText(const proto::JobProfile& told) {
    return told.losses.empty()
               ? "too short for a loss curve; use a larger --curve-seconds"
               : "loss " + FormatFixed(told.losses.back().loss, 3) + " after " +
                     FormatCount(static_cast<uint64_t>(told.losses.back().steps)) + " steps";
  }

  const ProfileCommand& command_;
  const run::Console& console_;
  ChildRuns runner_;
  proto::JobProfile profile_;
  std::vector<proto::ExchangeScheme> schemes_;  // that are compared, the job's own first
  std::vector<provisioner::MemorySample> memory_;
  size_t done_ = 0;
  size_t count_ = 0;
};

/// Runs the job briefly on this machine with different fleets and minibatches, says how far it is
/// on stderr, and writes what they told into `output`: into what is there already when that is a
/// profile of the same model. Returns the exit code.
int RunProfile(const ProfileCommand& command, const run::Console& console) {
  const Result<proto::JobConfig> config = proto::LoadJobConfig(command.job_path, command.overrides);
  if (!config.ok()) {
    return run::Misuse(console, config.status());
  }
  const Result<run::PreparedJob> job =
      run::PrepareJob(*config, command.job_path, command.overrides, "");
  if (!job.ok()) {
    return run::Misuse(console, job.status());
  }
  const auto schemes = SchemesToCompare(command, job->config);
  if (!schemes.ok()) {
    return run::Misuse(console, schemes.status());
  }
  const int minibatch_max =
      static_cast<int>(std::min<uint64_t>(kMinibatchMax, job->parts.data.train_count));
  Result<proto::JobProfile> measured =
      Measurement(command, console).All(job->config, minibatch_max);
  if (!measured.ok()) {
    return run::Fail(console, measured.status());
  }
  AddModelMemory(*job, &*measured);
  const Result<run::ProfileUpdate> update = run::UpdateProfileFile(
      command.output, [&](const proto::JobProfile* older) -> Result<proto::JobProfile> {
        if (older == nullptr) {
          return *measured;
        }
        PS_TRY(run::CheckSameJob(command.output, *older, *measured));
        return provisioner::MergeProfiles(*older, *measured);
      });
  if (!update.ok()) {
    return run::Fail(console, update.status());
  }
  for (const std::string& what : update->not_fitted) {
    console.err("not fitted: " + what + "\n");
  }
  console.out(RenderProfile(update->profile) + "\nwritten to " + command.output + "\n");
  return run::kExitOk;
}

Status CheckFigures(const ProfileCommand& command) {
  if (!(command.seconds >= 2 && command.seconds <= 3600)) {
    return Status::InvalidArgument("--seconds wants a number from 2 to 3600, as in --seconds 10");
  }
  const double curve_seconds = command.curve_seconds.value_or(0);
  if (!(curve_seconds >= 0 && curve_seconds <= 36000)) {
    return Status::InvalidArgument(
        "--curve-seconds wants a number from 0 to 36000, as in --curve-seconds 30");
  }
  const bool is_comparing =
      !command.local_steps.empty() || !command.push.empty() || !command.pull.empty();
  if (is_comparing && command.curve_seconds == 0.0) {
    return Status::InvalidArgument(
        "--local-steps, --push and --pull compare loss curves: give them --curve-seconds above 0");
  }
  if (command.curve_repeats < 1 || command.curve_repeats > provisioner::kCurvesPerFleet) {
    return Status::InvalidArgument(fmt::format(
        "--curve-repeats wants a number from 1 to {}, as in --curve-repeats 3",
        provisioner::kCurvesPerFleet));
  }
  return Status::Ok();
}

void AddArguments(ProfileCommand* command, Arguments* arguments) {
  arguments->Add("JOB.json", &command->job_path, "Job file").Required();
  arguments->AddSettings(&command->overrides, "Change a field of the job");
  arguments->Add("-o,--output", &command->output, "File to write or refine; profile.json")
      .Value("FILE");
  arguments->Add("--type", &command->type, "Name of this kind of machine; local");
  arguments->Add("--seconds", &command->seconds, "Length of a run; 10");
  arguments->Add(
      "--curve-seconds",
      &command->curve_seconds,
      "Length of one worker's loss curve, 0: none; twice --seconds");
  arguments->Add(
      "--curve-repeats",
      &command->curve_repeats,
      "Loss curves of each fleet of 2 to 6 workers, whose runs differ; 2");
  arguments
      ->Add(
          "--local-steps",
          &command->local_steps,
          "Measure what these numbers of local steps cost in samples to a loss, as in 1,8,50")
      .Value("N,...");
  arguments
      ->Add(
          "--push",
          &command->push,
          "The same of encodings of pushes, each with each, as in int8,int4")
      .Value("ENCODING,...");
  arguments->Add("--pull", &command->pull, "The same of pulls").Value("ENCODING,...");
  arguments->Check([command] { return CheckFigures(*command); });
}

int Run(const ProfileCommand& command, const Session& session) {
  return RunProfile(command, session.console);
}

}  // namespace

constinit const Command kProfile = {
    .path = "profile",
    .group = Group::kMeasure,
    .help = "Measure a job on this machine, for planning",
    .examples = {{{"psctl profile job.json", "measure a job on this machine"}}},
    .declare = Declare<ProfileCommand, AddArguments, Run>};

}  // namespace ps::psctl
