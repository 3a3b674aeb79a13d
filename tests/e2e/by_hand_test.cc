// Servers and workers that a person starts, here or on other machines.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <filesystem>
#include <memory>
#include <string>

#include "tests/e2e/support/socket.h"
#include "tests/e2e/support/train_run.h"

namespace ps::e2e {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

/// A port that was free a moment ago.
std::string FreePort() {
  return std::to_string(ListeningSocket().port());
}

class ByHandTest : public E2eTest {};

TEST_F(ByHandTest, ARunWhoseServersAndWorkersAllComeByHandTrainsToItsEnd) {
  const std::string port = FreePort();
  job_.Set("servers", R"({"count": 1, "launch": false, "port": )" + port + "}")
      .Set("workers", "[]");
  TrainRun run(job_);
  const std::string server_command =
      "ps_server --coordinator 127.0.0.1:[0-9]+ --token-file token --id 0 --port " + port;
  ASSERT_TRUE(WaitUntil([&] { return run.Address().has_value() && !run.psctl().Err().empty(); }));
  EXPECT_THAT(
      run.psctl().Err(),
      AllOf(
          ContainsRegex("fleet +1 server of 1 shard started by hand, workers started by hand"),
          ContainsRegex(server_command),
          ContainsRegex("ps_worker --coordinator 127.0.0.1:[0-9]+ --token-file token"),
          HasSubstr("other machines do not reach 127.0.0.1: for them set run.listen to")));
  const auto server = run.StartByHand("ps_server", {"--id", "0", "--port", port});
  const auto worker = run.StartWorker({"--threads", "1", "--minibatch", "48"});
  EXPECT_EQ(run.WaitForEnd(), ProcessEnd{});
  EXPECT_EQ(server->Wait(), ProcessEnd{});
  EXPECT_EQ(worker->Wait(), ProcessEnd{});
  run.ExpectExactLedger();
  EXPECT_EQ(run.Summary()["workers"][0]["minibatch"].number(), 48);
  EXPECT_THAT(server->Err(), ContainsRegex("event=listening host=127.0.0.1 port=" + port));
}

/// As from a slow disk: the file gives nothing until it is fed.
TEST_F(ByHandTest, AFirstLoadThatOutlastsTheTimeToJoinIsWaitedForAndTold) {
  const std::string data = folder_ / "data";
  std::filesystem::create_directory(data);
  std::string images;
  for (const auto& entry :
       std::filesystem::directory_iterator("/usr/share/datasets/fashion-mnist")) {
    const std::string name = entry.path().filename();
    std::filesystem::create_symlink(entry.path(), data + "/" + name);
    images = name.starts_with("train-images-idx3-ubyte") ? name : images;
  }
  job_.Set(
          "data",
          R"({"directory": ")" + data + R"(", "train_samples": 4096, "test_samples": 1000})")
      .Set("servers", R"({"count": 1})")
      .Set("workers", "[]")
      .Set("fleet", R"({"max_detect_s": 10, "join_timeout_s": 8})");
  TrainRun run(job_);
  ASSERT_TRUE(run.WaitFor([](const proto::JobStatus& status) {
    return status.shards.size() == 1 && status.shards[0].state == proto::ShardRowState::kReady;
  })) << "the job has been read";
  const std::string slow = data + "/" + images;
  std::filesystem::remove(slow);
  ASSERT_EQ(::mkfifo(slow.c_str(), 0600), 0);
  const auto worker = run.StartWorker();
  ASSERT_TRUE(
      WaitUntil([&] { return Contains(worker->Err(), "event=loading what="); }, kRunPatience))
      << "the worker tells of it every 10 s";
  EXPECT_THAT(
      Psctl({"status", run.Root()}).out, HasSubstr("w0 waits for its data: loading " + data));
  EXPECT_EQ(run.Status().value().samples_counted, 0U);
  const Process feeder(
      {.program = "/bin/sh",
       .arguments =
           {"-c", R"(exec cat "$0" > "$1")", "/usr/share/datasets/fashion-mnist/" + images, slow},
       .output_stem = folder_ / "feeder"});
  EXPECT_EQ(run.WaitForEnd(), ProcessEnd{});
  run.ExpectExactLedger();
  EXPECT_EQ(run.Summary()["joins"].number(), 1);
  EXPECT_EQ(worker->Wait(), ProcessEnd{});
}

TEST_F(ByHandTest, WhoReachesNoCoordinatorSaysSoAndTriesOn) {
  const std::string address = "127.0.0.1:" + FreePort();
  WriteText(folder_ / "token", "0123");
  for (const std::string program : {"ps_worker", "ps_server"}) {
    Process::Options options;
    options.program = program;
    options.arguments = {"--coordinator", address, "--token-file", folder_ / "token"};
    if (program == "ps_server") {
      options.arguments.insert(options.arguments.end(), {"--id", "0"});
    }
    options.directory = folder_.path();
    options.output_stem = folder_ / program;
    Process process(options);
    EXPECT_TRUE(WaitUntil([&] {
      return Contains(
          process.Err(),
          "\n" + program + ": cannot reach the coordinator at " + address +
              ": Connection refused; trying on. 127.0.0.1 is this machine itself");
    })) << process.Err();
    EXPECT_TRUE(process.IsRunning());
    process.Signal(SIGKILL);
  }
}

TEST_F(ByHandTest, BothProgramsTellAllTheirFlagsAndAnExample) {
  for (const std::string program : {"ps_worker", "ps_server"}) {
    const Output help =
        RunToEnd({.program = program, .arguments = {"--help"}, .output_stem = folder_ / program});
    EXPECT_EQ(help.end, ProcessEnd{});
    EXPECT_THAT(
        help.out,
        AllOf(
            HasSubstr("Usage: " + program + " --coordinator HOST:PORT --token-file FILE"),
            HasSubstr("--log-file FILE"),
            HasSubstr("Example:"),
            HasSubstr("Exit codes:")));
    const Output wrong =
        RunToEnd({.program = program, .arguments = {"--seet=1"}, .output_stem = folder_ / program});
    EXPECT_EQ(wrong.end, ProcessEnd{2});
    EXPECT_THAT(wrong.err, HasSubstr("unknown flag --seet"));
  }
}

}  // namespace
}  // namespace ps::e2e
