#pragma once

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <set>
#include <string>

#include "tests/base/temporary_folder.h"
#include "tests/e2e/support/train_run.h"
#include "tests/provisioner/fleet/cluster_script.h"

namespace ps::e2e {

/// Processes of a run over ssh and as jobs of Slurm, in places that a script makes on this machine.
class ElsewhereTest : public E2eTest {
 protected:
  void Open(const std::string& script) {
    if (const std::string why_not = place_.Start(script, place_folder_.path()); !why_not.empty()) {
      GTEST_SKIP() << why_not;
    }
    job_.SetData(4000, 1000)
        .SetEndless()
        .Set("servers", R"({"count": 1})")
        .Set("run", R"({"directory": ")" + job_.runs() + R"(", "tls": "on"})")
        .Set("workers", R"([{"count": 2, "step_ms": 40}])");
    options_.is_replacing = true;
  }

  /// The worker in seat 0 of a run that trains, once it has done something.
  static proto::WorkerRow AwaitWorker(TrainRun* run) {
    proto::WorkerRow row;
    EXPECT_TRUE(run->WaitFor([&](const proto::JobStatus& status) {
      const auto rows = Alive(status);
      const auto it = std::ranges::find(rows, WorkerId(0), &proto::WorkerRow::worker);
      if (rows.size() == 2 && it != rows.end() && it->samples_counted > 0) {
        row = *it;
        return true;
      }
      return false;
    }));
    return row;
  }

  static std::set<int64_t> PidsOf(const proto::JobStatus& status) {
    std::set<int64_t> pids;
    for (const proto::WorkerRow& row : Alive(status)) {
      pids.insert(row.pid);
    }
    return pids;
  }

  /// The process that coordinates is killed, and the next one goes on with the same workers.
  static void ExpectThatAnotherCoordinatorKeepsAll(TrainRun* run) {
    const auto before = run->Status();
    ASSERT_TRUE(before.has_value());
    ASSERT_EQ(::kill(static_cast<pid_t>(run->CoordinatorPid()), SIGKILL), 0);
    const auto after = run->WaitFor([&](const proto::JobStatus& status) {
      return status.journal.restarts == 1 && Alive(status).size() == 2 &&
             status.samples_counted > before->samples_counted;
    });
    ASSERT_TRUE(after.has_value());
    EXPECT_EQ(PidsOf(*after), PidsOf(*before));
    EXPECT_EQ(after->joins, 2U);
  }

  static void ExpectReplacedAndStop(TrainRun* run, int64_t old_pid) {
    EXPECT_TRUE(run->WaitFor([&](const proto::JobStatus& status) {
      return std::ranges::any_of(Alive(status), [&](const proto::WorkerRow& row) {
        return row.worker == WorkerId(0) && row.pid != old_pid;
      });
    })) << "another process in its seat";
    StopCleanly(run);
    EXPECT_EQ(::kill(static_cast<pid_t>(old_pid), 0), -1);
  }

  /// psctl and its supervisor are killed. Agents stay, and so does what they stand for, for a
  /// second: the workers, and a server that is elsewhere too.
  void ExpectOrphansEnd(const std::string& servers) {
    job_.Set("fleet", R"({"orphan_grace_s": 1})").Set("servers", servers);
    TrainRun run(job_, options_);
    AwaitWorker(&run);
    const auto status = run.Status();
    ASSERT_TRUE(status.has_value());
    std::set<int64_t> pids = PidsOf(*status);
    for (const proto::ShardRow& shard : status->shards) {
      pids.insert(shard.pid);
    }
    EXPECT_EQ(pids.size(), 3U);
    run.KillCoordinator();
    EXPECT_TRUE(WaitUntil(
        [&] {
          return std::ranges::all_of(
              pids, [](int64_t pid) { return ::kill(static_cast<pid_t>(pid), 0) == -1; });
        },
        kRunPatience));
    run.ExpectNothingLeft();
    EXPECT_THAT(
        ReadText(run.Root() + "/logs/worker0.log"), testing::HasSubstr("no coordinator for"));
    EXPECT_THAT(
        ReadText(run.Root() + "/logs/server0.log"),
        testing::HasSubstr("the coordinator is gone for"));
  }

  void UseSsh() {
    job_.Set(
        "launch",
        fmt::format(
            R"({{"launcher": "ssh", "ssh_config": "{}", "hosts": [{{"host": "127.0.0.1"}},)"
            R"( {{"host": "localhost", "slots": 2}}]}})",
            place_folder_ / "ssh_config"));
  }

  void UseSlurm() {
    ::setenv("SLURM_CONF", (place_folder_ / "slurm.conf").c_str(), 1);
    job_.Set("launch", R"({"launcher": "slurm", "sbatch": "--partition=spot"})");
  }

  TemporaryFolder place_folder_;
  provisioner::ClusterScript place_;
  TrainRun::Options options_;
};

/// The nearest sshd above a process.
inline pid_t SshdOf(int64_t pid) {
  while (pid > 1) {
    const std::string status = ReadText(fmt::format("/proc/{}/status", pid));
    if (status.starts_with("Name:\tsshd\n")) {
      return static_cast<pid_t>(pid);
    }
    const size_t at = status.find("\nPPid:\t");
    pid = at == std::string::npos ? 0 : std::stol(status.substr(at + 7));
  }
  return 0;
}

/// What `command` of the shell prints, with Slurm's own programs.
inline std::string Shell(const TemporaryFolder& folder, const std::string& command) {
  Process::Options options;
  options.program = "/bin/sh";
  options.output_stem = folder / "shell";
  options.arguments = {"-c", command};
  const Output output = RunToEnd(options, kRunPatience);
  EXPECT_EQ(output.end, ProcessEnd{}) << output.err;
  return output.out;
}

/// What a rented machine does with its user data, the file `script` of the place of an sshd: it
/// runs it, under a folder of its own, where restarting sshd gives this place's sshd the key that
/// it got.
inline void BootPlace(const TemporaryFolder& folder, const TemporaryFolder& place) {
  Shell(
      folder,
      fmt::format(
          R"(set -e
cd {0}
mkdir -p root/etc/ssh root/var/log stubs
cat > stubs/systemctl <<'END'
#!/bin/sh
cp {0}/root/etc/ssh/ssh_host_ed25519_key {0}/host
kill -HUP $(cat {0}/sshd.pid)
END
printf '#!/bin/sh\n' > stubs/setsid
printf '#!/bin/sh\ntouch {0}/shut_down\n' > stubs/shutdown
chmod +x stubs/*
SPOTPS_ROOT={0}/root PATH={0}/stubs:$PATH sh script)",
          place.path()));
}

/// The same of a machine of the EC2 server's book.
inline void BootEc2(
    const TemporaryFolder& folder, const TemporaryFolder& place, const Json& machine) {
  WriteText(place / "user_data", machine["setup"]["UserData"].text());
  Shell(folder, fmt::format("cd {}; base64 -d user_data > script", place.path()));
  BootPlace(folder, place);
}

}  // namespace ps::e2e
