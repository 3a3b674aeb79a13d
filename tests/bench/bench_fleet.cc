// How long workers take to come and to go, one beside a run and all of a large fleet at once. Real
// processes of this build on this machine.

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/base/temporary_folder.h"
#include "tests/bench/harness.h"
#include "tests/e2e/train_run.h"

namespace ps::bench {
namespace {

using e2e::Alive;
using e2e::Job;
using e2e::TrainRun;

void Psctl(const std::string& folder, std::vector<std::string> arguments) {
  e2e::Process::Options options;
  options.program = "psctl";
  options.arguments = std::move(arguments);
  options.output_stem = folder + "/command";
  const e2e::Output output = RunToEnd(options, e2e::kRunPatience);
  Require(output.end == e2e::ProcessEnd{}, output.err);
}

/// Seconds until the run is as wanted.
double SecondsTo(TrainRun* run, const std::function<bool(const proto::JobStatus&)>& is_wanted) {
  const double begin = WallSeconds();
  Require(run->WaitFor(is_wanted).has_value(), "not in time:\n" + run->psctl().Err());
  return WallSeconds() - begin;
}

bool IsTraining(const proto::JobStatus& status) {
  return status.state == "training" && status.samples_counted > 0;
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

/// A worker trains; another comes and goes beside it.
Guest ComeAndGo(uint32_t times) {
  const TemporaryFolder folder;
  Job job(folder.path());
  job.SetData(60000, 1000)
      .Set("train", R"({"epochs": 1000, "minibatch": 8, "evaluate_every_epochs": 0})")
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

Loss Lose(uint32_t times) {
  constexpr double kDetect = 3;
  const TemporaryFolder folder;
  Job job(folder.path());
  job.SetData(60000, 1000)
      .Set("train", R"({"epochs": 1000, "minibatch": 8, "evaluate_every_epochs": 0})")
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
      .Set("train", R"({"epochs": 1000, "minibatch": 8, "evaluate_every_epochs": 0})")
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

int Run(const BenchArguments& arguments) {
  SampleTable table;
  if (arguments.Wants("guest")) {
    const Guest guest = ComeAndGo(arguments.is_tiny ? 1 : 10 * arguments.runs);
    table.Add("guest, from its start to its first step counted", guest.joined, "s");
    table.Add("guest, from psctl drain to its seat being free", guest.left, "s");
    table.Add("guest, speed of the other worker, of alone", {{100 * guest.others}}, "%");
    table.Add("guest, steps lost", {{static_cast<double>(guest.lost)}}, "");
  }
  if (arguments.Wants("loss")) {
    const Loss loss = Lose(arguments.is_tiny ? 1 : 3 * arguments.runs);
    table.Add("loss, longest step beside a drain, over the median", loss.drained_others, "times");
    table.Add("loss, steps lost by drained ones", {{static_cast<double>(loss.repeated)}}, "");
    table.Add("loss, from SIGKILL to known lost", loss.detected, "s");
    table.Add("loss, from SIGSTOP to known lost, over max_detect_s", loss.silent, "times");
    table.Add("loss, longest step beside a loss, over the median", loss.killed_others, "times");
  }
  if (arguments.Wants("crowd")) {
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
    table.Add(name + ", from psctl scale to a step of each", there, "s");
    table.Add(name + ", from psctl scale workers=0 to nobody there", gone, "s");
    table.Add(name + ", steps lost", lost, "");
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
