// Real training on rate-limited links against the prediction of the queue model, which knows runs
// of one and of two workers only (and of one large fleet if told to). Needs root; exit status 77
// and the reason when hosts can't be built.

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "provisioner/model/profile_fit.h"
#include "provisioner/profile/profile_merge.h"
#include "provisioner/profile/profile_runs.h"
#include "ps/base/file.h"
#include "ps/base/text.h"
#include "ps/process/flags.h"
#include "tests/netns/cluster.h"
#include "tests/netns/loss_check.h"
#include "tests/netns/predictions.h"

namespace ps::netns {
namespace {

constexpr int kExitSkipped = 77;

/// Unequal on purpose, and fast enough that links of these rates are what limits most fleets.
const std::vector<WorkerSpec>& AllWorkers() {
  static const std::vector<WorkerSpec> workers = {{100}, {140}, {120}, {170}, {200}, {150}};
  return workers;
}

struct Plan {
  bool overlap = true;
  double seconds = 10;
  double alone_seconds = 5;  // of a worker without limits
  size_t kinds = 0;          // of workers, the first of AllWorkers
  std::vector<double> rates_mbit_per_s;
  std::vector<size_t> fleets;         // numbers of workers
  bool profiles_large_fleet = false;  // the largest one too, at the middle rate
  // Time to a loss: rates with numbers of workers; none in the tiny grid.
  std::vector<std::pair<double, size_t>> loss_fleets;
  int repeats = 5;
  double loss = 0.7;
  double curve_seconds = 25;  // of one worker
  double curve_step_s = 0;    // 0: the first worker's
  double loss_seconds_max = 150;
  std::string profile_path;  // what was profiled by another call, or where to keep it
};

/// All rates of the grid, and the sizes between. Empty: there is no such size.
std::vector<std::pair<double, size_t>> LossFleets(const std::string& sizes) {
  static const std::vector<std::pair<double, size_t>> all = {
      {200, 1}, {200, 2}, {200, 3}, {200, 4}, {400, 5}, {100, 6}};
  if (sizes == "yes") {
    return all;
  }
  std::vector<std::pair<double, size_t>> fleets;
  for (const char c : sizes) {
    const auto found = std::ranges::find(
        all, static_cast<size_t>(c - '0'), [](const auto& fleet) { return fleet.second; });
    if (found != all.end()) {
      fleets.push_back(*found);
    }
  }
  return fleets;
}

/// Everything that a run told, under its link's rate.
void AddToProfile(const Cell& cell, const CellResult& result, proto::JobProfile* profile) {
  proto::JobProfile part = result.profile;
  part.fleets.front().server_bytes_per_s = PayloadBytesPerS(cell.server_mbit_per_s);
  const bool is_known = !profile->workers.empty() && cell.server_mbit_per_s > 0;
  if (is_known) {
    part.workers.clear();  // a device is as fast as it is alone
  }
  const double overlap = part.overlap;
  *profile = provisioner::MergeProfiles(*profile, part);
  profile->overlap = overlap;
}

double ContentionShare(const Cell& cell, const CellResult& result) {
  double computing = 0;
  for (const WorkerSpec& worker : cell.workers) {
    computing += worker.step_ms / 1000;
  }
  // Workers compute `compute_s` for each of their steps: the sum over workers of rate x time.
  const double mean_step_s = computing / static_cast<double>(cell.workers.size());
  const double steps_each =
      result.profile.fleets.front().steps_per_s / static_cast<double>(cell.workers.size());
  return std::clamp(1 - steps_each * mean_step_s, 0.0, 1.0);
}

class Experiment {
 public:
  Experiment(Plan plan, Cluster* cluster) : plan_(std::move(plan)), cluster_(cluster) {}

  Status Run() {
    if (!plan_.profile_path.empty() && std::filesystem::exists(plan_.profile_path)) {
      PS_ASSIGN(const std::string text, ReadFile(plan_.profile_path));
      PS_ASSIGN(profile_, proto::ParseProfile(text, plan_.profile_path));
      PS_ASSIGN(const Predictor predictor, Predictor::Make(profile_));
      return MeasureLosses(predictor);
    }
    PS_TRY(MeasureAlone());
    PS_TRY(MeasureGrid());
    PS_ASSIGN(const Predictor predictor, Predictor::Make(profile_));
    for (Comparison& comparison : comparisons_) {
      comparison.predicted = predictor.Predict(comparison.cell);
    }
    std::printf(
        "\n%s, fit: wait_share %.3f, overhead %.2f ms, residual %.1f %% over %d fleets\n\n%s",
        plan_.overlap ? "With overlap" : "Without overlap",
        predictor.fit().wait_share,
        1000 * predictor.fit().overhead_s,
        100 * predictor.fit().residual,
        predictor.fit().samples,
        RenderTable(comparisons_).c_str());
    const ErrorSummary summary = Summarise(comparisons_);
    std::printf(
        "\n%d cells: error %.1f %% at most, %.1f %% in the median; contention dominates in %d\n",
        summary.cells,
        100 * summary.max,
        100 * summary.median,
        summary.contended);
    if (plan_.loss_fleets.empty() && plan_.profile_path.empty()) {
      return Status::Ok();
    }
    PS_TRY(MeasureCurves());
    PS_TRY(WriteProfile());
    return MeasureLosses(predictor);
  }

  const std::vector<Comparison>& comparisons() const { return comparisons_; }

 private:
  Result<CellResult> Measure(const Cell& cell) {
    PS_ASSIGN(CellResult result, cluster_->Run(cell));
    std::fprintf(
        stderr,
        "%4.0f Mbit/s, %zu workers: %.2f steps/s\n",
        cell.server_mbit_per_s,
        cell.workers.size(),
        result.profile.fleets.front().steps_per_s);
    return result;
  }

  /// Each kind of worker without a limit: how long it computes.
  Status MeasureAlone() {
    for (size_t i = 0; i < plan_.kinds; ++i) {
      Cell cell;
      cell.overlap = plan_.overlap;
      cell.workers = {AllWorkers()[i]};
      cell.seconds = plan_.alone_seconds;
      PS_ASSIGN(const CellResult result, Measure(cell));
      AddToProfile(cell, result, &profile_);
    }
    return Status::Ok();
  }

  Status MeasureGrid() {
    for (const double rate : plan_.rates_mbit_per_s) {
      for (const size_t size : plan_.fleets) {
        Comparison comparison;
        comparison.cell = FleetOf(size, rate);
        PS_ASSIGN(const CellResult result, Measure(comparison.cell));
        const proto::FleetSample& fleet = result.profile.fleets.front();
        comparison.is_profiled = IsProfiled(rate, size);
        comparison.measured_steps_per_s = fleet.steps_per_s;
        comparison.measured_samples_per_s = fleet.samples_per_s;
        PS_TRY(CheckLimit(comparison.cell, result.profile));
        comparison.contention_share = ContentionShare(comparison.cell, result);
        comparison.cpu_share = result.cpu_share;
        if (comparison.is_profiled) {
          AddToProfile(comparison.cell, result, &profile_);
        }
        comparisons_.push_back(std::move(comparison));
      }
    }
    return Status::Ok();
  }

  bool IsProfiled(double rate, size_t size) const {
    const double middle_rate = plan_.rates_mbit_per_s[plan_.rates_mbit_per_s.size() / 2];
    const bool is_large = rate == middle_rate && size == plan_.fleets.back();
    return size <= 2 || (plan_.profiles_large_fleet && is_large);
  }

  /// However busy the machine is: no more than the link's rate passes.
  static Status CheckLimit(const Cell& cell, const proto::JobProfile& told) {
    const double bytes_per_s = told.fleets.front().steps_per_s * told.push_bytes;
    if (bytes_per_s > 1.1 * PayloadBytesPerS(cell.server_mbit_per_s)) {
      return Status::InvalidArgument(
          "a link of " + std::to_string(cell.server_mbit_per_s) + " Mbit/s carried " +
          std::to_string(bytes_per_s) + " bytes/s each way: it is not limited");
    }
    return Status::Ok();
  }

  Cell FleetOf(size_t size, double rate) const {
    Cell cell;
    cell.server_mbit_per_s = rate;
    cell.overlap = plan_.overlap;
    cell.seconds = plan_.seconds;
    cell.workers.assign(AllWorkers().begin(), AllWorkers().begin() + static_cast<ptrdiff_t>(size));
    return cell;
  }

  /// The curves that `psctl profile` learns steps from. No link of these hosts plays a part.
  Status MeasureCurves() {
    provisioner::CurveSettings settings;
    settings.compute_s =
        plan_.curve_step_s > 0 ? plan_.curve_step_s : profile_.workers.front().compute_s;
    settings.push_bytes = profile_.push_bytes;
    settings.seconds = plan_.curve_seconds;
    const proto::JobConfig job = cluster_->JobOf(FleetOf(1, 0));
    for (const provisioner::ProfileRun& run : provisioner::PlanCurveRuns(job, "curve", settings)) {
      PS_ASSIGN(const CellResult result, cluster_->RunJob(run.config, 0));
      if (result.profile.losses.empty()) {
        return Status::Unavailable(
            run.label + ": " + std::to_string(run.config.run.seconds_max) + " s tell no loss");
      }
      provisioner::AddProfileRun(run, result.profile, &profile_);
      std::fprintf(
          stderr,
          "%s: %.3f after %.0f steps\n",
          run.label.c_str(),
          profile_.losses.back().loss,
          profile_.losses.back().steps);
    }
    return Status::Ok();
  }

  /// With its fits, as `psctl profile` leaves it: `psctl plan` takes it.
  Status WriteProfile() {
    for (const std::string& missing : provisioner::FitProfile(&profile_)) {
      std::fprintf(stderr, "%s\n", missing.c_str());
    }
    if (profile_.curves.samples == 0) {
      return Status::Unavailable("the loss curves can't be fitted");
    }
    if (!plan_.profile_path.empty() &&
        !(std::ofstream(plan_.profile_path) << proto::PrintProfile(profile_)).flush()) {
      return Status::Io("cannot write " + plan_.profile_path);
    }
    return Status::Ok();
  }

  /// The time that fleets take to a loss.
  Status MeasureLosses(const Predictor& predictor) {
    std::vector<Cell> cells;
    for (const auto& [rate, size] : plan_.loss_fleets) {
      Cell cell = FleetOf(size, rate);
      cell.seconds = plan_.loss_seconds_max;
      cell.stop_at_loss = plan_.loss;
      cells.push_back(cell);
    }
    if (cells.empty()) {
      return Status::Ok();
    }
    PS_ASSIGN(
        const auto comparisons, CompareLosses(cells, plan_.repeats, profile_, predictor, cluster_));
    std::printf("\nTime to a loss\n\n%s", RenderLosses(comparisons).c_str());
    return Status::Ok();
  }

  const Plan plan_;
  Cluster* const cluster_;
  proto::JobProfile profile_;
  std::vector<Comparison> comparisons_;
};

int Fail(const Status& status) {
  std::fprintf(stderr, "netns_experiment: %s\n", status.ToString().c_str());
  return 1;
}

Status CheckWords(const Flags& flags) {
  const std::pair<const char*, std::vector<std::string>> words[] = {
      {"grid", {"full", "tiny", "test"}},
      {"overlap", {"yes", "no"}},
      {"large-fleet", {"yes", "no"}}};
  for (const auto& [name, allowed] : words) {
    if (flags.Has(name) && std::ranges::find(allowed, flags.TextOr(name, "")) == allowed.end()) {
      return Status::InvalidArgument(std::string("--") + name + " is one of: " + Join(allowed));
    }
  }
  const std::string losses = flags.TextOr("losses", "no");
  if (losses != "yes" && losses != "no" && losses.find_first_not_of("123456") != losses.npos) {
    return Status::InvalidArgument(
        "--losses is yes, no, or sizes of fleets from 1 to 6, as in 123");
  }
  return Status::Ok();
}

Result<Plan> PlanOf(const Flags& flags) {
  PS_TRY(CheckWords(flags));
  Plan plan;
  plan.overlap = flags.TextOr("overlap", "yes") == "yes";
  const std::string grid = flags.TextOr("grid", "tiny");
  const bool is_full = grid == "full";
  plan.rates_mbit_per_s = is_full ? std::vector<double>{100, 200, 400} : std::vector<double>{200};
  plan.fleets = is_full ? std::vector<size_t>{1, 2, 3, 4, 5, 6} : std::vector<size_t>{1, 2, 3};
  plan.seconds = is_full ? 12 : 6;
  plan.profiles_large_fleet = flags.TextOr("large-fleet", "no") == "yes";
  plan.loss_fleets = LossFleets(flags.TextOr("losses", "no"));
  plan.profile_path = flags.TextOr("profile", "");
  plan.kinds = plan.loss_fleets.empty() && plan.profile_path.empty()
                   ? *std::ranges::max_element(plan.fleets)
                   : AllWorkers().size();
  if (grid == "test") {
    plan.seconds = 4;
    plan.kinds = *std::ranges::max_element(plan.fleets);
    plan.curve_seconds = 4;
    plan.curve_step_s = 0.05;
  }
  if (flags.Has("seconds")) {
    PS_ASSIGN(const uint64_t seconds, flags.Number("seconds", 3, 600));
    plan.seconds = static_cast<double>(seconds);
  }
  return plan;
}

int Main(int argc, char** argv) {
  Manual manual;
  manual.program = "netns_experiment";
  manual.sections.emplace_back();
  for (const char* const name :
       {"--grid", "--overlap", "--seconds", "--losses", "--profile", "--large-fleet"}) {
    manual.sections.back().flags.push_back({name, "VALUE", "See the usage."});
  }
  const Result<Flags> flags = Flags::Parse(argc, argv, manual);
  if (!flags.ok()) {
    std::fprintf(
        stderr,
        "netns_experiment: %s\nusage: netns_experiment [--grid full|tiny|test] [--overlap yes|no] "
        "[--seconds N] [--losses yes|DIGITS] [--profile FILE] [--large-fleet yes]\n",
        std::string(flags.status().message()).c_str());
    return 2;
  }
  const Result<Plan> plan = PlanOf(*flags);
  if (!plan.ok()) {
    return Fail(plan.status());
  }
  const std::string script = PS_NETNS_HOSTS;
  if (const std::string why = Cluster::WhyNot(script); !why.empty()) {
    std::printf("SKIP: %s\n", why.c_str());
    return kExitSkipped;
  }
  WatchForInterrupts();
  auto cluster = Cluster::Make({.hosts_script = script, .psctl = PS_NETNS_PSCTL, .workers = 8});
  if (!cluster.ok()) {
    return Fail(cluster.status());
  }
  Experiment experiment(*plan, cluster->get());
  if (const Status status = experiment.Run(); !status.ok()) {
    return Fail(status);
  }
  return 0;
}

}  // namespace
}  // namespace ps::netns

int main(int argc, char** argv) {
  return ps::netns::Main(argc, argv);
}
