// What training pays for a move of its parameters to more servers: how much of it goes on, how long
// it stands still, and how long all of it takes beside a plain copy of the same bytes. Real
// processes of this build on this machine.

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ps/base/buffer.h"
#include "tests/base/temporary_folder.h"
#include "tests/bench/disk.h"
#include "tests/bench/harness.h"
#include "tests/bench/raw_loop.h"
#include "tests/e2e/support/poll.h"
#include "tests/e2e/support/train_run.h"

namespace ps::bench {
namespace {

using e2e::Job;
using e2e::TrainRun;

constexpr uint32_t kServersAfter = 3;
constexpr uint32_t kWorkers = 2;

/// A row of the table.
struct Case {
  std::string name;
  std::string mode;
  std::string codec;
  double link_mbit_per_s = 0;  // of each server, each way; 0: no limit
};

struct Sizes {
  uint32_t width = 0;   // of the two large layers
  double before_s = 0;  // how long the rate without a move is measured
};

/// What the run said at a moment.
struct Look {
  double at_s = 0;
  uint64_t steps = 0;      // counted
  bool has_moved = false;  // all chunks are on the servers that are wanted
};

/// Looks at the run until `is_end` of what it says. Returns the first look, and each with a step
/// more than the one before.
std::vector<Look> Watch(TrainRun* run, const std::function<bool(const Look&)>& is_end) {
  std::vector<Look> looks;
  const bool is_over = e2e::WaitUntil(
      [&] {
        const auto status = run->Status();
        Require(status.has_value(), "the run has ended:\n" + run->psctl().Err());
        Require(status->servers.trouble.empty(), "nothing moves: " + status->servers.trouble);
        const proto::ServersStatus& servers = status->servers;
        const bool has_moved = servers.count == servers.wanted && !servers.is_moving;
        const Look look{WallSeconds(), status->steps_counted, has_moved};
        if (looks.empty() || look.steps > looks.back().steps) {
          looks.push_back(look);
        }
        return is_end(look);
      },
      e2e::kRunPatience);
  Require(is_over, "the run stands still:\n" + run->psctl().Err());
  return looks;
}

double LongestGap(const std::vector<Look>& looks) {
  double longest = 0;
  for (size_t i = 1; i < looks.size(); ++i) {
    longest = std::max(longest, looks[i].at_s - looks[i - 1].at_s);
  }
  return longest;
}

/// Whether all workers have made as many steps between the two, if they are equal. Steps of workers
/// that wait for one link end together, so what is counted else depends on which of them is seen.
bool IsOfAll(const Look& from, const Look& to) {
  return (to.steps - from.steps) % kWorkers == 0;
}

/// Steps per second from one look to another; both saw a new step.
double Rate(const Look& from, const Look& to) {
  return static_cast<double>(to.steps - from.steps) / (to.at_s - from.at_s);
}

struct Move {
  double mbytes = 0;       // of parameters
  double moved_s = 0;      // from the request until all servers have their chunks
  double took_s = 0;       // from the request to the first step on all servers
  double stalled_s = 0;    // longest time between two steps meanwhile
  double step_s = 0;       // the same before
  double throughput = 0;   // of all steps that the move touched, in percent of before
  double busy_copy_s = 0;  // of as many bytes by a socket beside the same training, or by the link
};

/// No push failed: what has begun was counted, by the workers that joined at first.
void RequireNothingLost(const TrainRun& run) {
  const auto status = run.Status();
  Require(status.has_value(), "the run has ended");
  Require(
      status->joins == kWorkers && status->revocations_unnoticed == 0,
      fmt::format("{} workers joined, {} of them anew", status->joins, status->joins - kWorkers));
  Require(
      status->steps_lost == 0 && status->steps_partial == 0 && status->samples_rejected == 0,
      fmt::format(
          "{} steps were lost, {} of them partly applied, and {} samples rejected",
          status->steps_lost,
          status->steps_partial,
          status->samples_rejected));
  const proto::CheckpointStatus& checkpoints = status->checkpoints;
  Require(
      checkpoints.rollbacks == 0 && checkpoints.steps_undone == 0,
      fmt::format("{} steps were undone", checkpoints.steps_undone));
}

constexpr double kMovedShare = 1.0 * (kServersAfter - 1) / kServersAfter;

/// Seconds to send them over one connection on loopback.
double CopyBySocket(size_t bytes) {
  constexpr uint32_t kMessage = 1U << 20;
  const Shape shape{static_cast<uint32_t>(bytes / kMessage) + 1, kMessage};
  const Outcome outcome = RawLoop(shape, false).Run(1, TcpPair::Pacing::kSystem);
  return static_cast<double>(bytes) * 1e-9 / outcome.gigabytes_per_s;
}

/// One server's parameters and momentum move to two more.
Move MoveServers(const Sizes& sizes, const Case& c) {
  const TemporaryFolder folder;
  Job job(folder.path());
  const std::string large = R"({"kind": "linear", "out": )" + std::to_string(sizes.width) + "}";
  job.SetData(4096, 100)
      .Set(
          "model",
          R"({"layers": [{"kind": "flatten"}, )" + large + R"(, {"kind": "relu"}, )" + large +
              R"(, {"kind": "relu"}, {"kind": "linear", "out": 10}]})")
      .Set("optimizer", R"({"kind": "sgd", "lr": 0.001, "momentum": 0.9})")
      .Set(
          "train",
          R"({"epochs": 1000, "minibatch": 8, "evaluate_every_epochs": 0, "mode": ")" + c.mode +
              R"("})")
      .Set(
          "servers",  // the queue, in bsp: a gradient of each worker
          fmt::format(
              R"({{"count": 1, "queue_mib": 1024, "link_mbit_per_s": {}}})", c.link_mbit_per_s))
      .Set("workers", fmt::format(R"([{{"count": {}}}])", kWorkers))
      .Set("checkpoint", R"({"every_s": 600, "keep": 1, "codec": ")" + c.codec + R"("})");
  TrainRun run(job);
  const auto first = run.WaitFor([](const proto::JobStatus& status) {
    return status.checkpoints.newest >= 1 && status.checkpoints.open == 0;
  });
  Require(first.has_value(), "no checkpoint came:\n" + run.psctl().Err());
  Move move;
  move.mbytes = 1.0 * sizes.width * (sizes.width + 794) * sizeof(float) / 1e6;
  const double moved = 2 * move.mbytes * 1e6 * kMovedShare;  // with the momentum
  move.busy_copy_s = c.link_mbit_per_s > 0 ? moved * 8e-6 / c.link_mbit_per_s
                                           : CopyBySocket(static_cast<size_t>(moved));
  const double begin = WallSeconds();
  std::optional<uint64_t> first_steps;
  const std::vector<Look> before = Watch(&run, [&](const Look& look) {
    first_steps = first_steps.value_or(look.steps);
    return look.at_s - begin > sizes.before_s && look.steps >= *first_steps + 3 * kWorkers;
  });
  e2e::Process::Options scale;
  scale.program = "psctl";
  scale.arguments = {"scale", run.Root(), fmt::format("servers={}", kServersAfter)};
  scale.output_stem = folder.path() + "/scale";
  const double asked = WallSeconds();
  const e2e::Output output = e2e::RunToEnd(scale);
  Require(output.end == e2e::ProcessEnd{}, output.err);
  std::optional<uint64_t> moved_at;
  const std::vector<Look> during = Watch(&run, [&](const Look& look) {
    if (look.has_moved && !moved_at) {
      moved_at = look.steps;
      move.moved_s = look.at_s - asked;
    }
    if (moved_at && look.steps > *moved_at && move.took_s == 0) {
      move.took_s = look.at_s - asked;
    }
    return moved_at && look.steps > *moved_at && IsOfAll(before.back(), look);
  });
  RequireNothingLost(run);
  move.stalled_s = LongestGap(during);
  move.step_s = LongestGap(before);
  const auto from = std::find_if(before.begin() + 1, before.end(), [&](const Look& look) {
    return IsOfAll(look, before.back());
  });
  move.throughput = 100 * Rate(before.back(), during.back()) / Rate(*from, before.back());
  return move;
}

/// Seconds to write and sync that many bytes to a file, and to read them back to other memory.
double CopyByDisk(size_t bytes) {
  const Folder folder;
  Buffer from(bytes);
  std::memset(from.data(), 1, bytes);
  const std::span<const std::byte> piece = from.bytes();
  const double begin = WallSeconds();
  WriteRaw(folder, {&piece, 1});
  Buffer to(bytes);
  const std::span<std::byte> place = to.bytes();
  ReadRaw(folder, {&place, 1});
  return WallSeconds() - begin;
}

int Run(const BenchArguments& arguments) {
  const Sizes sizes = arguments.is_tiny ? Sizes{64, 0.3} : Sizes{9600, 8};
  SampleTable table;
  const Case cases[] = {
      {"async, none", "async", "none"},
      {"async, zstd", "async", "zstd"},
      {"bsp, none", "bsp", "none"},
      {"async, 1 Gbit/s", "async", "none", 1000},
      {"bsp, 1 Gbit/s", "bsp", "none", 1000}};
  for (const Case& c : cases) {
    const std::string& name = c.name;
    if (!arguments.Wants(name)) {
      continue;
    }
    Samples moved;
    Samples took;
    Samples stalled;
    Samples step;
    Samples throughput;
    Samples over_disk;
    Samples over_socket;
    Samples over_busy;
    for (uint32_t i = 0; i < arguments.runs; ++i) {
      const Move move = MoveServers(sizes, c);
      const double bytes = 2 * move.mbytes * 1e6 * kMovedShare;
      moved.values.push_back(move.moved_s);
      took.values.push_back(move.took_s);
      stalled.values.push_back(move.stalled_s);
      step.values.push_back(move.step_s);
      throughput.values.push_back(move.throughput);
      over_busy.values.push_back(move.moved_s / move.busy_copy_s);
      if (c.link_mbit_per_s == 0) {
        over_disk.values.push_back(move.moved_s / CopyByDisk(static_cast<size_t>(bytes)));
        over_socket.values.push_back(move.moved_s / CopyBySocket(static_cast<size_t>(bytes)));
      }
    }
    table.Add(name + ": from the request until 3 servers have their chunks", moved, "s");
    table.Add(name + ": from the request to a step on 3 servers", took, "s");
    table.Add(name + ": longest time without a step meanwhile", stalled, "s");
    table.Add(name + ": longest time without a step before", step, "s");
    table.Add(name + ": steps per second meanwhile, of before", throughput, "%");
    if (c.link_mbit_per_s > 0) {
      table.Add(name + ": the time, over sending the moved bytes by the link", over_busy, "times");
      continue;
    }
    table.Add(name + ": the time, over a copy of the moved bytes by the disk", over_disk, "times");
    table.Add(name + ": the time, over a copy of them by a socket", over_socket, "times");
    table.Add(name + ": the time, over such a copy beside the same training", over_busy, "times");
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
