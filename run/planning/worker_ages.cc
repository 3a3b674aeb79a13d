#include "run/planning/worker_ages.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <string>
#include <string_view>

#include "run/directory/event_log.h"

namespace ps::run {
namespace {

struct Join {
  std::string process;  // its host and pid
  double unix_s = 0;
};

}  // namespace

WorkerAges AgesOfWorkers(const RunPaths& run, double unix_s) {
  std::map<WorkerId, Join> joins;
  const auto see = [&](const LogLine& line) {
    if (line.event != "worker_joins") {
      return;
    }
    const std::string_view seat = line.Get("worker");
    uint32_t number = 0;
    const auto [end, error] = std::from_chars(seat.data(), seat.data() + seat.size(), number);
    if (error != std::errc() || end != seat.data() + seat.size()) {
      return;
    }
    const std::string process = std::string(line.Get("host")) + " " + std::string(line.Get("pid"));
    Join& join = joins[WorkerId(number)];
    // A process that joins again after it was given up is as old as it was.
    if (join.process != process) {
      join = {process, line.unix_s};
    }
  };
  const std::string log = run.coordinator_log();
  for (const std::string& path : {log + ".1", log}) {
    std::error_code error;
    if (std::filesystem::exists(path, error)) {
      ForEachLogLine(path, 0, see).status().Ignore("their workers count as new");
    }
  }
  WorkerAges ages;
  for (const auto& [seat, join] : joins) {
    ages[seat] = std::max(unix_s - join.unix_s, 0.0);
  }
  return ages;
}

}  // namespace ps::run
