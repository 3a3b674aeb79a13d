#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "provisioner/fleet/job_fleet.h"
#include "tests/base/temporary_folder.h"

namespace ps::provisioner {

/// Notes what is asked for; processes end when the test says so.
class ScriptedLauncher final : public Launcher {
 public:
  Result<ProcessHandle> Start(const LaunchSpec& spec) override {
    if (fails) {
      return Status::Io("no more processes");
    }
    started.push_back(spec);
    if (spec.note) {
      spec.note(
          {spec.kind, spec.index, spec.launch, 100 + static_cast<int64_t>(started.size()), 5});
    }
    return ProcessHandle(started.size());
  }

  Result<ProcessHandle> Adopt(const proto::LaunchRecord& launch) override {
    if (launch.start_ticks == 0) {
      return Status::NotFound("it is over");
    }
    return ProcessHandle(1000 + static_cast<uint64_t>(launch.pid));
  }

  Status Kill(ProcessHandle handle) override {
    killed.push_back(handle.value);
    return Status::Ok();
  }

  std::vector<ProcessExit> PollExits() override { return std::exchange(exits, {}); }

  int64_t pid(ProcessHandle handle) const override {
    return 100 + static_cast<int64_t>(handle.value);
  }

  bool fails = false;
  std::vector<LaunchSpec> started;
  std::vector<uint64_t> killed;
  std::vector<ProcessExit> exits;
};

/// What was noted and is not over.
class ScriptedJournal final : public proto::LaunchJournal {
 public:
  void NoteStarted(const proto::LaunchRecord& launch) override { running.insert(launch); }

  void NoteEnded(const proto::LaunchRecord& launch) override { running.erase(launch); }

  std::set<proto::LaunchRecord> running;
};

class JobFleetTest : public ::testing::Test {
 protected:
  void SetUp() override {
    token_file_ = folder_ / "token";
    JobFleet::Options options;
    options.program_directory = folder_.path();
    options.log_directory = folder_ / "logs";
    options.make_token_file = [this](proto::ProcessKind, uint32_t) -> Result<std::string> {
      return token_file_;
    };
    options.coordinator = "127.0.0.1:4000";
    options.listen = "0.0.0.0";
    options.machine = "10.0.0.9";
    options.run_start_us = 1'769'852'496'123'456;
    options.servers.shards_per_server = 2;
    Make(options);
  }

  void Make(JobFleet::Options options) {
    options_ = std::move(options);
    fleet_ = std::make_unique<JobFleet>(options_, &launcher_, &NullLogger());
  }

  // Launches are 1, 2, 3, ...

  void StartServer(uint32_t server) { fleet_->StartServer(server, LaunchId(++launches_)); }

  void StartWorker(WorkerId seat, const proto::WorkerGroup& group) {
    fleet_->StartWorker(seat, LaunchId(++launches_), group);
  }

  TemporaryFolder folder_;
  std::string token_file_;
  uint64_t launches_ = 0;
  JobFleet::Options options_;
  ScriptedLauncher launcher_;
  std::unique_ptr<JobFleet> fleet_;
};

}  // namespace ps::provisioner
