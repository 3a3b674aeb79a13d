// A run whose connections are encrypted: from the start to the end, with workers of its own and by
// hand, and with those who should stay outside.

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <string>
#include <vector>

#include "ps/base/host_port.h"
#include "ps/base/time.h"
#include "tests/e2e/support/socket.h"
#include "tests/e2e/support/train_run.h"

namespace ps::e2e {
namespace {

using ::testing::HasSubstr;

bool HasThreeThatTrain(const proto::JobStatus& status) {
  const auto rows = Alive(status);
  return rows.size() == 3 && std::ranges::all_of(rows, [](const proto::WorkerRow& row) {
           return row.samples_counted > 0;
         });
}

class TlsRunTest : public E2eTest {
 protected:
  /// What one says that comes with this token file.
  Output Stranger(
      const TrainRun& run,
      const std::string& program,
      const std::string& token_file,
      const std::vector<std::string>& more = {}) {
    const HostPort address = *run.Address();
    std::vector<std::string> arguments = {
        "--coordinator", FormatHostPort(address.host, address.port), "--token-file", token_file};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return RunToEnd(
        {.program = program, .arguments = arguments, .output_stem = folder_ / "stranger"});
  }
};

TEST_F(TlsRunTest, AnEncryptedRunTrainsAndLetsNoStrangerIn) {
  job_.SetEndless()
      .Set("run", R"({"directory": ")" + job_.runs() + R"(", "tls": "on"})")
      .Set("workers", R"([{"count": 2, "slowdown": 6}])");
  TrainRun run(job_);
  ASSERT_TRUE(run.WaitForSamples(256).has_value());

  // By hand, with a copy of the whole file.
  const auto by_hand = run.StartWorker({});
  // The token alone is not enough, nor is a worker's file for a server.
  WriteText(folder_ / "token-alone", run.Token() + "\n");
  const Output plain = Stranger(run, "ps_worker", folder_ / "token-alone");
  EXPECT_EQ(plain.end, ProcessEnd{1});
  EXPECT_THAT(plain.err, HasSubstr("the connections of this run are encrypted (run.tls)"));
  const std::string workers = run.Root() + "/tokens/worker0";
  const Output server = Stranger(run, "ps_server", workers, {"--id", "0"});
  EXPECT_EQ(server.end, ProcessEnd{1});
  EXPECT_THAT(server.err, HasSubstr("wrong token"));
  // Nor for another seat.
  const Output other = Stranger(run, "ps_worker", workers, {"--seat", "1"});
  EXPECT_EQ(other.end, ProcessEnd{1});
  EXPECT_THAT(other.err, HasSubstr("this token is worker 0's"));
  // A frame without TLS, and no frame at all.
  const RawConnection raw(*run.Address());
  proto::Hello hello;
  hello.role = proto::Role::kWorker;
  hello.token = run.Token();
  raw.Send(hello);
  const auto refusal = raw.Receive();
  ASSERT_TRUE(refusal.has_value());
  EXPECT_THAT(std::get<proto::Refusal>(*refusal).message, HasSubstr("encrypted"));

  EXPECT_TRUE(run.WaitFor(HasThreeThatTrain));
  const Json summary = StopCleanly(&run);
  EXPECT_EQ(by_hand->Wait(), ProcessEnd{});
  EXPECT_EQ(summary["joins"].number(), 3);
  EXPECT_EQ(summary["steps_lost"].number(), 0);
}

/// "time=2026-01-31T", of a machine whose clock is so many seconds ahead.
std::string DateIn(int64_t ahead_s) {
  const time_t then = SystemTime().UnixMicros() / 1'000'000 + ahead_s;
  std::tm utc{};
  ::gmtime_r(&then, &utc);
  char date[32];
  std::strftime(date, sizeof(date), "time=%Y-%m-%dT", &utc);
  return date;
}

/// Certificates are good from a day ago on, nothing is decided by a wall clock, and the processes
/// of the run count its seconds from psctl's.
TEST_F(TlsRunTest, TheClocksOfMachinesMayBeADayApart) {
  for (const int64_t ahead_s : {-86'000, 86'000}) {
    SCOPED_TRACE(ahead_s);
    const TemporaryFolder place;
    Job job = job_.CopyIn(place.path());
    job.SetEndless()
        .Set("run", R"({"directory": ")" + job.runs() + R"(", "tls": "on"})")
        .Set("checkpoint", R"({"every_s": 1})")
        .Set("workers", R"([{"count": 2, "slowdown": 4}])")
        .Set(
            "launch",
            fmt::format(
                R"({{"prefix": "env LD_PRELOAD={} CLOCK_SHIFT_S={}"}})", PS_CLOCK_SHIFT, ahead_s));
    TrainRun run(job);
    ASSERT_TRUE(run.WaitForSamples(256).has_value());
    const auto right = run.StartWorker({});
    EXPECT_TRUE(run.WaitFor(HasThreeThatTrain));
    const Json summary = StopCleanly(&run);
    EXPECT_EQ(right->Wait(), ProcessEnd{});
    EXPECT_EQ(summary["joins"].number(), 3);
    EXPECT_EQ(summary["steps_lost"].number(), 0);
    EXPECT_EQ(summary["revocations_unnoticed"].number(), 0);
    EXPECT_THAT(ReadText(run.Root() + "/logs/worker0.log"), HasSubstr(DateIn(ahead_s)));
    EXPECT_THAT(ReadText(run.Root() + "/logs/server0.log"), HasSubstr(DateIn(ahead_s)));
  }
}

}  // namespace
}  // namespace ps::e2e
