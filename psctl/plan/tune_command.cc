#include "psctl/plan/tune_command.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "provisioner/profile/share_search.h"
#include "ps/base/file.h"
#include "ps/base/text.h"
#include "ps/proto/job/optimizer_rules.h"
#include "psctl/cli/arguments.h"
#include "psctl/plan/child_runs.h"
#include "psctl/runs/runs_command.h"
#include "run/report/job_parts.h"
#include "run/report/tables.h"

namespace ps::psctl {
namespace {

/// What the runs of one share came to, on average.
struct ShareResult {
  double share = 1;
  std::optional<double> accuracy;  // none: one of them diverged
  double seconds = 0;              // of training
  bool is_good = false;            // as good as bsp alone
};

std::string ShareText(double share) {
  return fmt::format("{:.4g} %", 100 * share);
}

Status CheckTunable(const proto::JobConfig& job, const run::JobParts& parts) {
  if (parts.data.test_count == 0) {
    return Status::InvalidArgument("the job has no test samples, so no accuracy to compare");
  }
  if (job.train.mode != proto::Mode::kBsp && job.train.switch_momentum_factor != 1) {
    return Status::InvalidArgument(
        "train.switch_momentum_factor is for train.mode; allowed: 1, or \"mode\": \"bsp\" with the "
        "momentum of rounds");
  }
  return Status::Ok();
}

class Tuning {
 public:
  Tuning(const TuneCommand& command, const proto::JobConfig& job, const run::Console& console)
      : command_(command),
        job_(job),
        console_(console),
        search_(command.tolerance_points / 100, command.tries) {}

  /// The smallest share that is as good as bsp alone.
  Result<double> Search() {
    while (const std::optional<double> share = search_.Next()) {
      PS_ASSIGN(ShareResult result, Measure(*share));
      if (results_.empty() && !result.accuracy) {
        return Status::Unavailable("training diverges in bsp alone; nothing can be as good as it");
      }
      result.is_good = search_.Add(result.accuracy);
      results_.push_back(result);
    }
    return search_.chosen();
  }

  std::string Render(size_t width_max, uint64_t samples) const {
    run::Table table(
        {{"bsp"},
         {"rounds", run::Align::kRight, 1},
         {"then steps", run::Align::kRight, 1},
         {"accuracy"},
         {"time"},
         {"of bsp", run::Align::kRight, 2},
         {"", run::Align::kLeft}});
    std::vector<ShareResult> rows = results_;
    std::ranges::sort(rows, {}, &ShareResult::share);
    for (const ShareResult& row : rows) {
      const provisioner::SwitchedSteps steps = provisioner::StepsOfShare(
          row.share,
          samples / std::max<uint32_t>(job_.train.minibatch, 1),
          proto::WorkersListed(job_));
      const double whole_s = results_.front().seconds;
      table.AddRow(
          {ShareText(row.share),
           FormatCount(steps.rounds),
           FormatCount(steps.steps),
           row.accuracy ? FormatPercent(*row.accuracy, 2) : "diverged",
           FormatDuration(row.seconds),
           whole_s > 0 ? FormatPercent(row.seconds / whole_s, 0) : "-",
           row.share == search_.chosen() ? "chosen"
           : row.is_good                 ? "as accurate"
                                         : "too low"});
    }
    return table.Render(width_max);
  }

 private:
  Result<ShareResult> Measure(double share) {
    ShareResult result;
    result.share = share;
    double sum = 0;
    bool has_diverged = false;
    for (int repeat = 0; repeat < command_.repeats; ++repeat) {
      console_.err(fmt::format(
          "{}/{}  {} in bsp\n",
          ++runs_,
          (command_.tries + 1) * command_.repeats,
          ShareText(share)));
      PS_ASSIGN(
          const ChildRun child,
          runner_.Run(provisioner::ShareRun(job_, share, static_cast<uint32_t>(repeat))));
      const RunRow row = EndedRun(child.run);
      if (!child.end.ok() && row.state != "failed") {
        return child.end;
      }
      if (row.state != "failed" && !row.accuracy) {
        return Status::Unavailable(
            fmt::format("a run ended as '{}', without an accuracy", Printable(row.state)));
      }
      has_diverged = has_diverged || row.state == "failed";
      sum += row.accuracy.value_or(0);
      result.seconds += row.seconds.value_or(0) / command_.repeats;
      console_.err(fmt::format(
          "      {}, in {}\n",
          row.state == "failed" ? "failed" : "accuracy " + FormatPercent(*row.accuracy, 2),
          FormatDuration(row.seconds.value_or(0))));
    }
    if (!has_diverged) {
      result.accuracy = sum / command_.repeats;
    }
    return result;
  }

  const TuneCommand& command_;
  const proto::JobConfig& job_;
  const run::Console& console_;
  provisioner::ShareSearch search_;
  ChildRuns runner_;
  std::vector<ShareResult> results_;
  int runs_ = 0;
};

/// What to write into the job for it.
std::string FieldsText(const proto::JobConfig& before, const proto::JobConfig& chosen) {
  std::string text = "in train: \"mode\": \"bsp\"";
  if (chosen.train.mode_policy != before.train.mode_policy) {
    const bool switches = chosen.train.mode_policy == proto::ModePolicy::kSyncSwitch;
    text += fmt::format(", \"mode_policy\": \"{}\"", switches ? "sync_switch" : "fixed");
  }
  if (chosen.train.mode_policy != proto::ModePolicy::kFixed) {
    text += fmt::format(", \"switch_at\": {:g}", chosen.train.switch_at);
  }
  if (chosen.train.switch_lr_factor != before.train.switch_lr_factor) {
    text += fmt::format(", \"switch_lr_factor\": {:g}", chosen.train.switch_lr_factor);
  }
  if (chosen.train.lr_policy != before.train.lr_policy) {
    text += ", \"lr_policy\": \"live\"";  // the one policy that `auto` no longer is in bsp
  }
  if (chosen.optimizer.lr != before.optimizer.lr) {
    text += fmt::format("; in optimizer: \"lr\": {:g}", chosen.optimizer.lr);
  }
  return text;
}

/// Runs the job on this machine again and again, from beginning to end, to find the smallest share
/// of it that has to be trained in bsp (train.switch_at) for the accuracy of bsp alone. Says how
/// far it is on stderr, and prints each share with its accuracy and time. Returns the exit code.
int RunTune(const TuneCommand& command, const run::Console& console) {
  const Result<proto::JobConfig> job = proto::LoadJobConfig(command.job_path, command.overrides);
  if (!job.ok()) {
    return run::Misuse(console, job.status());
  }
  const Result<run::JobParts> parts = run::LoadParts(*job, command.job_path, command.overrides);
  if (!parts.ok()) {
    return run::Misuse(console, parts.status());
  }
  if (const Status tunable = CheckTunable(*job, *parts); !tunable.ok()) {
    return run::Misuse(console, tunable);
  }
  Tuning tuning(command, *job, console);
  const Result<double> share = tuning.Search();
  if (!share.ok()) {
    return run::Fail(console, share.status());
  }
  const proto::JobConfig chosen = provisioner::WithShare(*job, *share);
  console.out(tuning.Render(console.out_width, parts->data.train_count * job->train.epochs));
  console.out(fmt::format(
      "{} in bsp is as accurate as bsp alone, within {:g} points\n{}\n",
      ShareText(*share),
      command.tolerance_points,
      FieldsText(*job, chosen)));
  if (command.output.empty()) {
    return run::kExitOk;
  }
  if (const Status written =
          WriteFileAtomically(command.output, proto::PrintJobConfig(chosen) + "\n");
      !written.ok()) {
    return run::Fail(console, written);
  }
  console.out("written to " + command.output + "\n");
  return run::kExitOk;
}

Status CheckFigures(const TuneCommand& tune) {
  if (!(tune.tolerance_points >= 0 && tune.tolerance_points <= 100)) {
    return Status::InvalidArgument(
        "--tolerance wants a number from 0 to 100, as in --tolerance 0.5");
  }
  if (tune.tries < 1 || tune.tries > kTuneTriesMax) {
    return Status::InvalidArgument(
        fmt::format("--tries wants a number from 1 to {}, as in --tries 4", kTuneTriesMax));
  }
  if (tune.repeats < 1 || tune.repeats > kTuneRepeatsMax) {
    return Status::InvalidArgument(
        fmt::format("--repeats wants a number from 1 to {}, as in --repeats 3", kTuneRepeatsMax));
  }
  return Status::Ok();
}

void AddArguments(TuneCommand* command, Arguments* arguments) {
  arguments->Add("JOB.json", &command->job_path, "Job file; it is run from beginning to end")
      .Required();
  arguments->AddSettings(&command->overrides, "Change a field of the job");
  arguments
      ->Add(
          "--tolerance",
          &command->tolerance_points,
          "Accuracy may be so much below that of bsp alone, in percent; 0.5")
      .Value("POINTS");
  arguments->Add("--tries", &command->tries, "Shares to try, each half way between two others; 4");
  arguments->Add("--repeats", &command->repeats, "Runs of each share, with other seeds; 1");
  arguments->Add("-o,--output", &command->output, "File for the job with the share that was found")
      .Value("FILE.json");
  arguments->Check([command] { return CheckFigures(*command); });
}

int Run(const TuneCommand& command, const Session& session) {
  return RunTune(command, session.console);
}

}  // namespace

constinit const Command kTune = {
    .path = "tune",
    .group = Group::kMeasure,
    .help = "Find the share of a job that has to be trained in bsp",
    .examples = {{{"psctl tune job.json -o tuned.json", "a job with the share that was found"}}},
    .declare = Declare<TuneCommand, AddArguments, Run>};

}  // namespace ps::psctl
