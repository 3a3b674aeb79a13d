// What "can't be late" saves against machines on demand, by trace, and whether it meets every
// deadline. Needs no quiet machine: it measures no time. Run it in the root of the source tree.
//     bench_deadline [UNIT=FILE...]     UNIT: s, ms or h, for traces beside those of tests/data

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "ps/base/file.h"
#include "psctl/traces/forecast_command.h"
#include "psctl/traces/replay_trace.h"
#include "tests/bench/harness.h"
#include "tests/bench/trace_files.h"
#include "tests/provisioner/strategies/deadline_replay.h"

namespace ps::bench {
namespace {

constexpr double kShortHours = 3;
constexpr double kLongHours = 48;
constexpr double kLongTraceHours = 10 * kLongHours;  // and longer ones: long jobs

/// All of the most machines of the trace, and fewer.
std::vector<uint32_t> NeededOf(uint32_t most) {
  std::vector<uint32_t> needed = {most, most * 3 / 4, most / 2};
  needed.erase(std::remove(needed.begin(), needed.end(), 0U), needed.end());
  needed.erase(std::unique(needed.begin(), needed.end()), needed.end());
  return needed;
}

Status AddRows(const TraceFile& file, bool is_tiny, Table* table) {
  PS_ASSIGN(const std::string text, ReadFile(file.name));
  PS_ASSIGN(const psctl::AvailabilityTrace trace, psctl::ParseTrace(text, file.name, file.unit_s));
  PS_ASSIGN(const std::vector<uint32_t> minutes, psctl::CountsOf(trace, provisioner::kReplayTickS));
  const bool is_long = trace.end_s >= kLongTraceHours * 3600;
  const double hours = is_long ? kLongHours : kShortHours;
  const size_t every = is_tiny ? 200 : is_long ? 360 : 20;
  for (const uint32_t needed : NeededOf(*std::ranges::max_element(minutes))) {
    const auto replays = provisioner::ReplayDeadlines(minutes, needed, hours, every);
    const auto had = std::ranges::count_if(minutes, [&](uint32_t n) { return n >= needed; });
    table->Add(
        {file.name.substr(file.name.rfind('/') + 1),
         Fixed(trace.end_s / 3600, 1),
         Fixed(hours, 0),
         std::to_string(needed),
         Fixed(100.0 * static_cast<double>(had) / static_cast<double>(minutes.size()), 0),
         std::to_string(replays.jobs),
         std::to_string(replays.met),
         Fixed(100 * replays.saving, 1)});
  }
  return Status::Ok();
}

int Run(int argc, char** argv) {
  const std::vector<TraceFile> files = TakeTraces(&argc, argv);
  const BenchArguments arguments = ReadBenchArguments(argc, argv);
  Table table({"trace", "hours", "job, h", "needs", "had, %", "jobs", "met", "saving, %"});
  for (const TraceFile& file : files) {
    if (const Status added = AddRows(file, arguments.is_tiny, &table); !added.ok()) {
      std::fprintf(stderr, "%s\n", added.ToString().c_str());
      return 1;
    }
  }
  table.Print();
  return 0;
}

}  // namespace
}  // namespace ps::bench

int main(int argc, char** argv) {
  return ps::bench::Run(argc, argv);
}
