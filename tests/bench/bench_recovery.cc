// What protection costs while nothing happens, and how long a run stands still when a process of it
// is killed. Real processes of this build on this machine.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "ps/base/unique_fd.h"
#include "tests/base/temporary_folder.h"
#include "tests/bench/harness.h"
#include "tests/e2e/support/train_run.h"

namespace ps::bench {
namespace {

namespace fs = std::filesystem;
using e2e::Alive;
using e2e::Job;
using e2e::TrainRun;

constexpr char kWithout[] = R"({"enabled": false})";

struct Sizes {
  double train_s = 0;    // of one run that is measured
  uint32_t workers = 0;  // when the coordinator is killed
  uint32_t width = 0;    // of the two large layers when a server is killed
};

bool IsTraining(const proto::JobStatus& status) {
  return status.state == proto::RunState::kTraining && status.samples_counted > 0;
}

/// Seconds until another sample is counted.
double SecondsToNextSample(TrainRun* run) {
  const double begin = WallSeconds();
  std::optional<uint64_t> counted;
  const auto next = run->WaitFor([&](const proto::JobStatus& status) {
    const uint64_t before = counted.value_or(status.samples_counted);
    counted = before;
    return status.samples_counted > before;
  });
  Require(next.has_value(), "the run stands still:\n" + run->psctl().Err());
  return WallSeconds() - begin;
}

/// Samples per second of a run that is looked at for `seconds`.
double Rate(const std::string& checkpoint, double seconds) {
  const TemporaryFolder folder;
  Job job(folder.path());
  job.Set("model", R"({"name": "cnn"})")
      .SetData(60000, 1000)
      .Set("train", R"({"epochs": 1000, "minibatch": 64, "evaluate_every_epochs": 0})")
      .Set("workers", R"([{"count": 1}])")
      .Set("checkpoint", checkpoint);
  TrainRun run(job);
  const auto first = run.WaitFor(IsTraining);
  Require(first.has_value(), "the run did not begin:\n" + run.psctl().Err());
  const double begin = WallSeconds();
  e2e::WaitUntil([&] { return !run.psctl().IsRunning(); }, FromSeconds(seconds));
  const auto last = run.Status();
  const double took = WallSeconds() - begin;
  Require(last.has_value(), "the run ended:\n" + run.psctl().Err());
  return static_cast<double>(last->samples_counted - first->samples_counted) / took;
}

/// Seconds from SIGKILL of the coordinator to the next counted sample, which follows a lease or a
/// report that another coordinator took.
double KillCoordinator(uint32_t workers) {
  const TemporaryFolder folder;
  Job job(folder.path());
  job.SetData(60000, 1000)
      .Set("train", R"({"epochs": 1000, "minibatch": 8, "evaluate_every_epochs": 0})")
      .Set("fleet", R"({"max_detect_s": 10})")
      .Set("workers", R"([{"step_ms": 500, "count": )" + std::to_string(workers) + "}]");
  TrainRun run(job);
  const auto all = run.WaitFor([&](const proto::JobStatus& status) {
    return IsTraining(status) && Alive(status).size() == workers;
  });
  Require(all.has_value(), "not all workers came:\n" + run.psctl().Err());
  SecondsToNextSample(&run);
  ::kill(static_cast<pid_t>(run.CoordinatorPid()), SIGKILL);
  const double took = SecondsToNextSample(&run);
  const auto after = run.Status();
  Require(after && Alive(*after).size() == workers, "workers were lost");
  return took;
}

struct RawRead {
  double seconds = 0;
  double mbytes = 0;
};

/// Reads all files of a directory to one place, from the page cache or, once that has forgotten
/// them, from the disk.
RawRead ReadRaw(const std::string& directory, bool is_cold) {
  std::vector<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    if (entry.is_regular_file()) {
      files.push_back(entry.path());
    }
  }
  for (const std::string& file : files) {
    const UniqueFd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
    Require(
        !is_cold || !fd.is_open() || ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED) == 0,
        "the page cache does not forget " + file);
  }
  std::vector<char> piece(1 << 20);
  RawRead result;
  const double begin = WallSeconds();
  for (const std::string& file : files) {
    const UniqueFd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
    ssize_t n = 0;
    while ((n = ::read(fd.get(), piece.data(), piece.size())) > 0) {
      result.mbytes += static_cast<double>(n) / 1e6;
    }
  }
  result.seconds = WallSeconds() - begin;
  return result;
}

struct ServerKill {
  double back_s = 0;  // from SIGKILL to the next counted sample
  double step_s = 0;  // between two samples that are counted, undisturbed
  RawRead warm;       // of the files of its checkpoints, from the page cache
  RawRead cold;       // and from the disk
  double mbytes = 0;
};

/// One server with all parameters is killed.
ServerKill KillServer(uint32_t width) {
  const TemporaryFolder folder;
  Job job(folder.path());
  const std::string large = R"({"kind": "linear", "out": )" + std::to_string(width) + "}";
  job.SetData(4096, 100)
      .Set(
          "model",
          R"({"layers": [{"kind": "flatten"}, )" + large + R"(, {"kind": "relu"}, )" + large +
              R"(, {"kind": "relu"}, {"kind": "linear", "out": 10}]})")
      .Set("optimizer", R"({"kind": "sgd", "lr": 0.001})")
      .Set("train", R"({"epochs": 1000, "minibatch": 8, "evaluate_every_epochs": 0})")
      .Set("servers", R"({"count": 1})")
      .Set("workers", R"([{"count": 1}])")
      .Set("checkpoint", R"({"every_s": 1, "codec": "none", "keep": 1})");
  ServerKill result;
  std::string checkpoints;
  {
    TrainRun run(job);
    const auto before = run.WaitFor([](const proto::JobStatus& status) {
      return IsTraining(status) && status.checkpoints.newest >= 1;
    });
    Require(before.has_value(), "no checkpoint came:\n" + run.psctl().Err());
    SecondsToNextSample(&run);
    result.step_s = SecondsToNextSample(&run);
    ::kill(static_cast<pid_t>(before->shards[0].pid), SIGKILL);
    result.back_s = SecondsToNextSample(&run);
    checkpoints = run.Root() + "/checkpoints";
  }
  result.warm = ReadRaw(checkpoints, false);  // the run is over, and disturbs nobody
  result.cold = ReadRaw(checkpoints, true);
  const double parameters = 1.0 * width * (width + 794);
  result.mbytes = parameters * sizeof(float) / 1e6;
  return result;
}

int Run(const BenchArguments& arguments) {
  const Sizes sizes = arguments.is_tiny ? Sizes{0.5, 2, 256} : Sizes{20, 64, 9600};
  SampleTable table;
  if (arguments.Wants("throughput")) {
    const std::vector<Samples> rates = MeasureInTurn(
        arguments.runs,
        {[&] { return Rate(kWithout, sizes.train_s); },
         [&] { return Rate(R"({"every_s": 5})", sizes.train_s); }},
        0);
    table.Add(
        "throughput with a checkpoint every 5 s, of without", PercentOf(rates[1], rates[0]), "%");
  }
  if (arguments.Wants("coordinator")) {
    const std::vector<Samples> kills =
        MeasureInTurn(arguments.runs, {[&] { return KillCoordinator(sizes.workers); }}, 0);
    table.Add(
        "coordinator killed, " + std::to_string(sizes.workers) + " workers, to the next sample",
        kills[0],
        "s");
  }
  if (arguments.Wants("server")) {
    Samples back;
    Samples step;
    Samples warm;
    Samples cold;
    Samples over_warm;
    Samples over_cold;
    double mbytes = 0;
    for (uint32_t i = 0; i < arguments.runs; ++i) {
      const ServerKill kill = KillServer(sizes.width);
      mbytes = kill.mbytes;
      back.values.push_back(kill.back_s);
      step.values.push_back(kill.step_s);
      warm.values.push_back(1000 * kill.warm.seconds / kill.warm.mbytes);
      cold.values.push_back(1000 * kill.cold.seconds / kill.cold.mbytes);
      const double more_s = kill.back_s - kill.step_s;
      over_warm.values.push_back(more_s / (kill.warm.seconds / kill.warm.mbytes * mbytes));
      over_cold.values.push_back(more_s / (kill.cold.seconds / kill.cold.mbytes * mbytes));
    }
    table.Add("server of " + Fixed(mbytes, 0) + " MB killed, to the next sample", back, "s");
    table.Add("between two samples of this run, undisturbed", step, "s");
    table.Add("reading its checkpoints' files, from the page cache", warm, "s/GB");
    table.Add("the same from the disk", cold, "s/GB");
    table.Add(
        "killed, less such a step, over reading its bytes from the page cache", over_warm, "times");
    table.Add("the same over reading them from the disk", over_cold, "times");
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
