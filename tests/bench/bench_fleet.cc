// How long workers take to come and to go, one beside a run and all of a large fleet at once, and
// what is left of a fleet's speed when they do so all the time. Real processes of this build on
// this machine.

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/base/temporary_folder.h"
#include "tests/bench/harness.h"
#include "tests/e2e/support/json.h"
#include "tests/e2e/support/train_run.h"

namespace ps::bench {
namespace {

using e2e::Alive;
using e2e::Job;
using e2e::TrainRun;

/// What it prints.
std::string Psctl(
    const std::string& folder,
    std::vector<std::string> arguments,
    Duration patience = e2e::kRunPatience) {
  e2e::Process::Options options;
  options.program = "psctl";
  options.arguments = std::move(arguments);
  options.output_stem = folder + "/command";
  const e2e::Output output = RunToEnd(options, patience);
  Require(output.end == e2e::ProcessEnd{}, output.err);
  return output.out;
}

/// Seconds until the run is as wanted.
double SecondsTo(TrainRun* run, const std::function<bool(const proto::JobStatus&)>& is_wanted) {
  const double begin = WallSeconds();
  Require(run->WaitFor(is_wanted).has_value(), "not in time:\n" + run->psctl().Err());
  return WallSeconds() - begin;
}

bool IsTraining(const proto::JobStatus& status) {
  return status.state == proto::RunState::kTraining && status.samples_counted > 0;
}

struct Guest {
  Samples joined;     // s from the start of its process to its first counted step
  Samples left;       // s from `psctl drain` to its seat being free
  double others = 0;  // samples/s of the other worker while one comes and goes, of before
  uint64_t lost = 0;  // steps of all those who were let go
};

uint64_t CountedOf(const proto::JobStatus& status, uint32_t seat) {
  const auto rows = Alive(status);
  const auto row = std::ranges::find(rows, WorkerId(seat), &proto::WorkerRow::worker);
  return row == rows.end() ? 0 : row->samples_counted;
}

/// `train` of a job that goes on until the benchmark has seen enough.
std::string Endless(const std::string& mode) {
  return R"({"epochs": 1000, "minibatch": 8, "evaluate_every_epochs": 0, "mode": ")" + mode +
         R"("})";
}

/// A worker trains; another comes and goes beside it.
Guest ComeAndGo(const std::string& mode, uint32_t times) {
  const TemporaryFolder folder;
  Job job(folder.path());
  job.SetData(60000, 1000)
      .Set("train", Endless(mode))
      .Set("workers", R"([{"count": 1, "step_ms": 20}])");
  TrainRun run(job);
  SecondsTo(&run, IsTraining);
  const auto rate = [&](const std::function<void()>& meanwhile) {
    const double begin = WallSeconds();
    const uint64_t before = CountedOf(run.Status().value(), 0);
    meanwhile();
    const uint64_t after = CountedOf(run.Status().value(), 0);
    return static_cast<double>(after - before) / (WallSeconds() - begin);
  };
  const double alone =
      rate([&] { e2e::WaitUntil([&] { return !run.psctl().IsRunning(); }, FromSeconds(2)); });
  Guest guest;
  const double beside = rate([&] {
    for (uint32_t i = 0; i < times; ++i) {
      const std::unique_ptr<e2e::Process> process = run.StartWorker();
      uint32_t seat = 0;
      guest.joined.values.push_back(SecondsTo(&run, [&](const proto::JobStatus& status) {
        const auto rows = Alive(status);
        seat = rows.empty() ? 0 : rows.back().worker.value;
        return seat > 0 && rows.back().samples_counted > 0;
      }));
      const double begin = WallSeconds();
      Psctl(folder.path(), {"drain", std::to_string(seat), run.Root()});
      SecondsTo(&run, [](const proto::JobStatus& status) { return Alive(status).size() == 1; });
      guest.left.values.push_back(WallSeconds() - begin);
    }
  });
  guest.others = beside / alone;
  guest.lost = run.Status().value().steps_lost;
  return guest;
}

struct LargeJoin {
  Samples joined;     // s from the start of a process to its first counted step
  Samples beyond;     // the same less what the link takes to carry the model there and back
  double mbytes = 0;  // of parameters
};

/// Workers come to a server behind a link, one after another: each has it for itself. A link of 0
/// is none.
LargeJoin JoinLarge(uint32_t width, double link_mbit_per_s, uint32_t times) {
  const TemporaryFolder folder;
  Job job(folder.path());
  const std::string large = R"({"kind": "linear", "out": )" + std::to_string(width) + "}";
  job.SetData(60000, 1000)
      .Set(
          "model",
          R"({"layers": [{"kind": "flatten"}, )" + large + R"(, {"kind": "relu"}, )" + large +
              R"(, {"kind": "relu"}, {"kind": "linear", "out": 10}]})")
      .Set("optimizer", R"({"kind": "sgd", "lr": 0.001})")
      .Set("train", Endless("async"))
      .Set("servers", fmt::format(R"({{"count": 1, "link_mbit_per_s": {}}})", link_mbit_per_s))
      .Set("workers", R"([{"count": 1}])")
      .Set("checkpoint", R"({"every_s": 600})");
  TrainRun run(job);
  SecondsTo(&run, [](const proto::JobStatus& status) {
    return IsTraining(status) && status.checkpoints.newest >= 1 && status.checkpoints.open == 0;
  });
  LargeJoin join;
  join.mbytes = 1.0 * width * (width + 796) * sizeof(float) / 1e6;
  const double link_s = link_mbit_per_s > 0 ? 2 * join.mbytes * 8 / link_mbit_per_s : 0;
  std::string seat = "0";
  std::unique_ptr<e2e::Process> process;
  for (uint32_t i = 0; i < times; ++i) {
    Psctl(folder.path(), {"drain", seat, run.Root()});
    SecondsTo(&run, [](const proto::JobStatus& status) { return Alive(status).empty(); });
    process = run.StartWorker();
    join.joined.values.push_back(SecondsTo(&run, [&](const proto::JobStatus& status) {
      const auto rows = Alive(status);
      seat = rows.empty() ? "" : std::to_string(rows.back().worker.value);
      return !rows.empty() && rows.back().samples_counted > 0;
    }));
    join.beyond.values.push_back(join.joined.values.back() - link_s);
  }
  return join;
}

constexpr double kStepMs = 200;

/// How long the steps of seat 0 take, as they are counted, while something happens.
Samples StepsOfFirst(TrainRun* run, const std::function<bool()>& is_over) {
  Samples steps;
  uint64_t counted = CountedOf(run->Status().value(), 0);
  double since = 0;  // of the step that was counted last; 0: it began before the first look
  e2e::WaitUntil(
      [&] {
        const uint64_t now_counted = CountedOf(run->Status().value(), 0);
        if (now_counted > counted) {
          const double now = WallSeconds();
          if (since > 0) {
            steps.values.push_back(now - since);
          }
          since = now;
          counted = now_counted;
        }
        return is_over();
      },
      e2e::kRunPatience);
  return steps;
}

double OverMedian(Samples steps) {
  std::ranges::sort(steps.values);
  return steps.values.empty() ? 0 : steps.values.back() / steps.values[steps.values.size() / 2];
}

struct Loss {
  Samples drained_others;  // longest step of the other worker over its median, while one is drained
  Samples killed_others;   // the same while one is lost
  Samples detected;        // s from SIGKILL to the worker being known lost
  Samples silent;          // s from SIGSTOP to the same, over fleet.max_detect_s
  uint64_t repeated = 0;   // steps lost by those who were let go
};

enum class Way { kDrain, kKill, kStop };

/// A worker comes beside another, and goes. Returns what the other one's steps took meanwhile.
Samples GoOnce(TrainRun* run, const std::string& folder, Way way, Samples* known_after) {
  const std::unique_ptr<e2e::Process> process = run->StartWorker();
  uint32_t seat = 0;
  SecondsTo(run, [&](const proto::JobStatus& status) {
    const auto rows = Alive(status);
    seat = rows.empty() ? 0 : rows.back().worker.value;
    return seat > 0 && rows.back().samples_counted > 0;
  });
  const double begin = WallSeconds();
  if (way == Way::kDrain) {
    Psctl(folder, {"drain", std::to_string(seat), run->Root()});
  } else {
    process->Signal(way == Way::kKill ? SIGKILL : SIGSTOP);
  }
  double gone = 0;
  return StepsOfFirst(run, [&] {
    if (gone == 0 && Alive(run->Status().value()).size() == 1) {
      gone = WallSeconds();
      known_after->values.push_back(gone - begin);
    }
    return gone > 0 && WallSeconds() - gone > 2;  // some steps more
  });
}

Loss Lose(const std::string& mode, uint32_t times) {
  constexpr double kDetect = 3;
  const TemporaryFolder folder;
  Job job(folder.path());
  job.SetData(60000, 1000)
      .Set("train", Endless(mode))
      .Set("fleet", fmt::format(R"({{"max_detect_s": {}}})", kDetect))
      .Set("workers", fmt::format(R"([{{"count": 1, "step_ms": {}}}])", kStepMs));
  TrainRun run(job);
  SecondsTo(&run, IsTraining);
  Loss loss;
  Samples drained;
  for (uint32_t i = 0; i < times; ++i) {
    loss.drained_others.values.push_back(
        OverMedian(GoOnce(&run, folder.path(), Way::kDrain, &drained)));
    loss.repeated = run.Status().value().steps_lost;
  }
  for (uint32_t i = 0; i < times; ++i) {
    Samples silent;
    loss.killed_others.values.push_back(
        OverMedian(GoOnce(&run, folder.path(), Way::kKill, &loss.detected)));
    loss.killed_others.values.push_back(
        OverMedian(GoOnce(&run, folder.path(), Way::kStop, &silent)));
    loss.silent.values.push_back(silent.values.at(0) / kDetect);
  }
  return loss;
}

/// A fleet of one becomes one of `workers`, and then none.
struct Crowd {
  double there_s = 0;  // from `psctl scale` to all of them having counted a step
  double gone_s = 0;   // from `psctl scale workers=0` to nobody being there
  uint64_t lost = 0;
};

Crowd ScaleUpAndDown(uint32_t workers) {
  const TemporaryFolder folder;
  Job job(folder.path());
  job.SetData(60000, 1000)
      .Set("optimizer", R"({"kind": "sgd", "lr": 0.0002})")  // so many diverge with that of others
      .Set("train", Endless("async"))
      .Set("workers", R"([{"count": 1, "step_ms": 500}])");
  TrainRun::Options options;
  options.is_replacing = true;  // psctl scale is for such runs
  TrainRun run(job, options);
  SecondsTo(&run, IsTraining);
  Crowd crowd;
  const double begin = WallSeconds();
  Psctl(folder.path(), {"scale", run.Root(), "workers=" + std::to_string(workers)});
  SecondsTo(&run, [&](const proto::JobStatus& status) {
    const auto rows = Alive(status);
    return rows.size() == workers && std::ranges::all_of(rows, [](const proto::WorkerRow& row) {
             return row.samples_counted > 0;
           });
  });
  crowd.there_s = WallSeconds() - begin;
  const double end = WallSeconds();
  Psctl(folder.path(), {"scale", run.Root(), "workers=0"});
  SecondsTo(&run, [](const proto::JobStatus& status) { return Alive(status).empty(); });
  crowd.gone_s = WallSeconds() - end;
  crowd.lost = run.Status().value().steps_lost;
  return crowd;
}

/// Samples of a fleet that is given and taken as a trace says, in percent of one that loses nothing
/// by it. The run's ledger is exact, or a test failure.
double ReplayTrace(uint32_t nodes, double speedup, const std::string& notice) {
  constexpr double kHours = 2;
  const TemporaryFolder folder;
  Job job(folder.path());
  job.Set("train", R"({"epochs": 100000, "minibatch": 32, "evaluate_every_epochs": 0})")
      .Set("workers", R"([{"count": 1, "step_ms": 500}])")
      .Write();
  const std::vector<std::string> arguments = {
      "replay",
      PS_REPLAY_TRACE,
      job.path(),
      "--speedup",
      fmt::format("{}", speedup),
      "--hours",
      fmt::format("{}", kHours),
      "--nodes",
      std::to_string(nodes),
      "--notice",
      notice,
      "--json"};
  const Duration patience = FromSeconds(3600 * kHours / speedup) + e2e::kRunPatience;
  const auto report = e2e::Json::Parse(Psctl(folder.path(), arguments, patience));
  Require(report.has_value(), "the report is no JSON");
  const std::filesystem::directory_iterator runs(job.runs());
  const auto summary = e2e::Json::Parse(e2e::ReadText(runs->path().string() + "/summary.json"));
  Require(summary.has_value(), "there is no summary.json");
  e2e::ExpectConsistentLedger(*summary);
  const double ideal = (*report)["samples_ideal"].number();  // 0: it was never whole for long
  return ideal > 0 ? 100 * (*report)["samples"].number() / ideal : 0;
}

void MeasureGuest(const BenchArguments& arguments, const std::string& mode, SampleTable* table) {
  const Guest guest = ComeAndGo(mode, arguments.is_tiny ? 1 : 10 * arguments.runs);
  const std::string name = "guest " + mode;
  table->Add(name + ", from its start to its first step counted", guest.joined, "s");
  table->Add(name + ", from psctl drain to its seat being free", guest.left, "s");
  table->Add(name + ", speed of the other worker, of alone", {{100 * guest.others}}, "%");
  table->Add(name + ", steps lost", {{static_cast<double>(guest.lost)}}, "");
}

void MeasureLoss(const BenchArguments& arguments, const std::string& mode, SampleTable* table) {
  const Loss loss = Lose(mode, arguments.is_tiny ? 1 : 3 * arguments.runs);
  const std::string name = "loss " + mode;
  table->Add(name + ", longest step beside a drain, over the median", loss.drained_others, "times");
  table->Add(name + ", steps lost by drained ones", {{static_cast<double>(loss.repeated)}}, "");
  table->Add(name + ", from SIGKILL to known lost", loss.detected, "s");
  table->Add(name + ", from SIGSTOP to known lost, over max_detect_s", loss.silent, "times");
  table->Add(name + ", longest step beside a loss, over the median", loss.killed_others, "times");
}

void MeasureLarge(const BenchArguments& arguments, SampleTable* table) {
  const uint32_t width = arguments.is_tiny ? 64 : 4700;
  const uint32_t times = arguments.is_tiny ? 1 : 5 * arguments.runs;
  const LargeJoin linked = JoinLarge(width, 1000, times);
  const LargeJoin plain = JoinLarge(width, 0, times);
  const std::string name = fmt::format("large, {:.1f} MB", linked.mbytes);
  table->Add(name + " by 1 Gbit/s, from its start to its first step counted", linked.joined, "s");
  table->Add(name + " by 1 Gbit/s, less the link's time there and back", linked.beyond, "s");
  table->Add(name + " without a link's limit", plain.joined, "s");
}

void MeasureCrowd(const BenchArguments& arguments, SampleTable* table) {
  const uint32_t workers = arguments.is_tiny ? 3 : 64;
  Samples there;
  Samples gone;
  Samples lost;
  for (uint32_t i = 0; i < arguments.runs; ++i) {
    const Crowd crowd = ScaleUpAndDown(workers);
    there.values.push_back(crowd.there_s);
    gone.values.push_back(crowd.gone_s);
    lost.values.push_back(static_cast<double>(crowd.lost));
  }
  const std::string name = "crowd of " + std::to_string(workers);
  table->Add(name + ", from psctl scale to a step of each", there, "s");
  table->Add(name + ", from psctl scale workers=0 to nobody there", gone, "s");
  table->Add(name + ", steps lost", lost, "");
}

int Run(const BenchArguments& arguments) {
  SampleTable table;
  for (const std::string mode : {"async", "ssp", "bsp"}) {
    const bool is_measured = mode == "async" || !arguments.is_tiny;  // they take seconds each
    if (is_measured && arguments.Wants("guest " + mode)) {
      MeasureGuest(arguments, mode, &table);
    }
    if (is_measured && arguments.Wants("loss " + mode)) {
      MeasureLoss(arguments, mode, &table);
    }
  }
  if (arguments.Wants("large")) {
    MeasureLarge(arguments, &table);
  }
  if (arguments.Wants("crowd")) {
    MeasureCrowd(arguments, &table);
  }
  for (const std::string notice : {"2m", "none"}) {
    if (arguments.Wants("replay, notice " + notice)) {
      const double percent =
          arguments.is_tiny ? ReplayTrace(4, 3600, notice) : ReplayTrace(32, 60, notice);
      table.Add("replay, notice " + notice + ", samples of the ideal", {{percent}}, "%");
    }
  }
  table.Print();
  return testing::Test::HasFailure() ? 1 : 0;
}

}  // namespace
}  // namespace ps::bench

int main(int argc, char** argv) {
  testing::InitGoogleTest();
  return ps::bench::Run(ps::bench::ReadBenchArguments(argc, argv, {.has_rows = true}));
}
