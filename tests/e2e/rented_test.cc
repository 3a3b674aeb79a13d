// Workers on machines that are rented: EC2's fault server, an sshd of the test that boots by the
// user data that EC2 was sent, and whole runs.

#include <pwd.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>

#include "tests/e2e/support/elsewhere.h"
#include "tests/e2e/support/rented_cloud.h"

namespace ps::e2e {
namespace {

class RentedTest : public ElsewhereTest {
 protected:
  void OpenCloud(RentedCloud* cloud) {
    Open("sshd.sh");
    if (IsSkipped()) {
      return;
    }
    if (!cloud->why_not().empty()) {
      GTEST_SKIP() << cloud->why_not();
    }
    std::string addresses;
    for (int i = 0; i < 20; i++) {
      addresses += (i == 0 ? "" : ", ") + std::string(R"("127.0.0.1")");
    }
    cloud->Order(R"({"addresses": [)" + addresses + "]}");
  }

  void OpenEc2() {
    OpenCloud(&cloud_);
    ::setenv("AWS_ACCESS_KEY_ID", "AKIDTEST", 1);
    ::setenv("AWS_SECRET_ACCESS_KEY", "c2VjcmV0LW9mLXRoZS10ZXN0", 1);
    Rent("");
  }

  void Rent(const std::string& more) {
    RentFrom(
        "ec2",
        fmt::format(
            R"("region": "eu-test-1", "endpoint": "{}", "zones": ["eu-test-1a", "eu-test-1b"],)"
            R"( "types": ["g4dn.xlarge"], "image": "ami-1"{})",
            cloud_.url(),
            more));
  }

  void RentFrom(const std::string& launcher, const std::string& rent) {
    const passwd* const user = ::getpwuid(::getuid());
    job_.Set(
        "launch",
        fmt::format(
            R"({{"launcher": "{}", "ssh_config": "{}", "rent": {{{}, "user": "{}"}}}})",
            launcher,
            place_folder_ / "ssh_config",
            rent,
            user != nullptr ? user->pw_name : "root"));
  }

  void Boot() {
    ASSERT_TRUE(WaitUntil([&] { return !cloud_.Machines().empty(); }, kRunPatience));
    BootEc2(folder_, place_folder_, cloud_.Machines().front());
  }

  void MovePrices(double usd) {
    cloud_.Order(fmt::format(
        R"({{"prices": {{"g4dn.xlarge spot in eu-test-1a": {0},)"
        R"( "g4dn.xlarge spot in eu-test-1b": {0}}}}})",
        usd));
  }

  Output Cloud(const std::vector<std::string>& arguments) {
    std::vector<std::string> all = {"cloud"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    all.insert(all.begin() + 2, job_.path());
    return RunToEnd(
        {.program = "psctl",
         .arguments = all,
         .directory = folder_.path(),
         .output_stem = folder_ / "cloud"},
        kRunPatience);
  }

  /// It is in the tag by which the run's machines are known.
  void ExpectThatNothingIsSweptWithoutTheToken(const TrainRun& run) {
    const std::string token = run.Root() + "/token";
    std::filesystem::rename(token, token + ".away");
    const Output swept = Cloud({"sweep", "--yes"});
    std::filesystem::rename(token + ".away", token);
    EXPECT_NE(swept.end.code, 0);
    EXPECT_THAT(swept.err, testing::HasSubstr("nothing is ended"));
    EXPECT_THAT(swept.err, testing::HasSubstr(token));
    EXPECT_EQ(cloud_.Machines().size(), 2U);
  }

  void ExpectThatAllWentBack(const Json& summary) { ExpectThatAllWentBack(summary, &cloud_); }

  /// The summary's cost is that of the provider's book, to the cent.
  static void ExpectThatAllWentBack(const Json& summary, RentedCloud* cloud) {
    EXPECT_TRUE(cloud->Machines().empty());
    const Json book = cloud->Book();
    EXPECT_NEAR(summary["usd_spent"].number(), book["usd"].number(), 0.005);
    EXPECT_GT(book["usd"].number(), 0);
    EXPECT_EQ(book["left_behind"].size(), 0U) << "launch templates";
  }

  static size_t MeasuredStarts(const TrainRun& run) {
    const auto profile = Json::Parse(ReadText(run.Root() + "/profile.json"));
    return profile ? (*profile)["starts"].size() : 0;
  }

  /// The first two were ordered by a coordinator that was killed.
  static void ExpectThreeMeasuredStarts(const TrainRun& run) {
    const auto profile = Json::Parse(ReadText(run.Root() + "/profile.json"));
    ASSERT_TRUE(profile.has_value());
    const Json starts = (*profile)["starts"];
    ASSERT_EQ(starts.size(), 3U);
    const Json start = starts[2];
    EXPECT_EQ(start["instance_type"].text(), "g4dn.xlarge");
    EXPECT_THAT(start["zone"].text(), testing::StartsWith("eu-test-1"));
    EXPECT_EQ(start["launcher"].text(), "ec2");
    EXPECT_GT(start["machine_s"].number(), 0);
    EXPECT_GT(start["join_s"].number(), start["machine_s"].number());
    EXPECT_GE(start["step_s"].number(), start["join_s"].number());
    EXPECT_THAT(
        ReadText(run.Root() + "/summary.txt"),
        testing::ContainsRegex("start-up +.* until the first step of g4dn.xlarge .3 starts,"));
  }

  RentedCloud cloud_{"ec2_server.py"};
};

TEST_F(RentedTest, WorkersOfRentedMachinesAreReplacedWhenTheseAreTakenBackAndAllGoBackAtTheEnd) {
  OpenEc2();
  if (IsSkipped()) {
    return;
  }
  job_.Set("traffic", R"({"server_zone": "eu-test-1c", "zone_usd_per_gb": 40})");
  TrainRun run(job_, options_);
  Boot();
  const proto::WorkerRow worker = AwaitWorker(&run);
  EXPECT_EQ(cloud_.Machines().size(), 2U);
  EXPECT_GT(run.Status()->usd_per_hour, 0);
  EXPECT_GT(worker.usd_per_hour, 0) << "as the provider says";
  EXPECT_TRUE(run.WaitFor([](const proto::JobStatus& status) { return status.traffic.usd > 0; }));
  EXPECT_TRUE(WaitUntil([&] { return MeasuredStarts(run) == 2; }, kRunPatience));
  ExpectThatAnotherCoordinatorKeepsAll(&run);
  EXPECT_EQ(cloud_.Machines().size(), 2U) << "the successor rents no others";
  const std::string log = ReadText(run.Root() + "/events.jsonl");
  EXPECT_THAT(log, testing::HasSubstr("worker 0 has machine i-"));

  std::set<std::string> before;
  for (const Json& machine : cloud_.Machines()) {
    before.insert(machine["id"].text());
  }
  const std::string lost = *before.begin();
  cloud_.Order(R"({"revoke": ")" + lost + R"("})");
  EXPECT_TRUE(WaitUntil(
      [&] {
        const std::vector<Json> machines = cloud_.Machines();
        return machines.size() == 2 && std::ranges::any_of(machines, [&](const Json& machine) {
                 return !before.contains(machine["id"].text());
               });
      },
      kRunPatience));
  EXPECT_TRUE(run.WaitFor([](const proto::JobStatus& status) {
    const std::vector<proto::WorkerRow> alive = Alive(status);
    return status.joins == 3 && alive.size() == 2 &&
           std::ranges::all_of(alive, [](const auto& row) { return row.stats.steps > 5; });
  }));
  // Another price counts from a machine's next hour on.
  MovePrices(72);
  cloud_.Order(R"({"advance_s": 4600})");
  MovePrices(0.5);
  const Json summary = StopCleanly(&run);
  EXPECT_EQ(cloud_.Book()["machines"].size(), 3U);
  ExpectThatAllWentBack(summary);
  EXPECT_GT(summary["usd_spent"].number(), 2 * 72 * 900.0 / 3600)
      << "1000 s and more of the second";
  // Each byte once: those of the worker that is gone and of before the restart as well.
  const double bytes = summary["bytes_pushed"].number() + summary["bytes_pulled"].number();
  EXPECT_EQ(summary["traffic_bytes"].number(), bytes);
  EXPECT_NEAR(summary["traffic_usd"].number(), bytes / 1e9 * 40, 0.005);
  EXPECT_GT(summary["traffic_usd"].number(), 0.01);
  EXPECT_THAT(
      run.psctl().Err() + run.psctl().Out(), testing::ContainsRegex("traffic +[0-9.]+ USD"));
  ExpectThreeMeasuredStarts(run);
}

TEST_F(RentedTest, WhatARunLeavesWhenItsMachineGoesIsListedAndSwept) {
  OpenEc2();
  if (IsSkipped()) {
    return;
  }
  TrainRun run(job_, options_);
  Boot();
  AwaitWorker(&run);
  const Output checked = Cloud({"check"});
  EXPECT_EQ(checked.end, ProcessEnd{}) << checked.out << checked.err;
  EXPECT_THAT(checked.out, testing::HasSubstr("the job's workers cost at most"));
  const Output living = Cloud({"list"});
  EXPECT_THAT(living.out, testing::HasSubstr("g4dn.xlarge spot in eu-test-1"));
  EXPECT_THAT(living.out, testing::HasSubstr("runs here"));
  EXPECT_THAT(living.out, testing::HasSubstr("2 machines in region eu-test-1, "));
  const Output nothing = Cloud({"sweep", "--yes"});
  EXPECT_THAT(nothing.out, testing::HasSubstr("nothing to end")) << nothing.err;
  EXPECT_EQ(cloud_.Machines().size(), 2U);
  // By its folder's name, too: the tag has some digits more.
  const Output by_folder =
      Cloud({"sweep", "--run", std::filesystem::path(run.Root()).filename().string(), "--yes"});
  EXPECT_THAT(by_folder.err, testing::HasSubstr("2 machines of runs that go on here stay"));
  EXPECT_EQ(cloud_.Machines().size(), 2U);
  ExpectThatNothingIsSweptWithoutTheToken(run);

  run.KillCoordinator();
  // Another machine's psctl may have a run that goes on.
  const std::string own = cloud_.Machines().front()["tags"]["spotps-owner"].text();
  cloud_.Order(R"({"tag": {"spotps-owner": "another"}})");
  EXPECT_THAT(Cloud({"list"}).out, testing::HasSubstr("psctl of another"));
  const Output others = Cloud({"sweep", "--yes"});
  EXPECT_THAT(others.out, testing::HasSubstr("nothing to end"));
  EXPECT_THAT(
      others.err,
      testing::HasSubstr("2 machines of other owners (machine, user or container) stay"));
  EXPECT_EQ(cloud_.Machines().size(), 2U);
  // Of one machine it is known here that its run is over; the other's run has to be named.
  const Json first = cloud_.Machines().front();
  cloud_.Order(
      R"({"tag": {"spotps-owner": ")" + own + R"("}, "of": ")" + first["id"].text() + R"("})");

  const Output unasked = Cloud({"sweep"});
  EXPECT_EQ(unasked.end.code, 2);
  EXPECT_THAT(unasked.err, testing::HasSubstr("there is no terminal to ask on"));
  EXPECT_EQ(cloud_.Machines().size(), 2U);
  const Output swept = Cloud({"sweep", "--yes"});
  EXPECT_EQ(swept.end, ProcessEnd{}) << swept.err;
  EXPECT_THAT(swept.out, testing::HasSubstr("1 machine told to end"));
  EXPECT_THAT(
      swept.err, testing::HasSubstr("1 machine of other owners (machine, user or container)"));
  const Output unknown = Cloud({"sweep", "--run", "another-run", "--yes"});
  EXPECT_THAT(unknown.out, testing::HasSubstr("nothing to end"));
  EXPECT_THAT(
      unknown.err,
      testing::HasSubstr(
          "no machine of run another-run in region eu-test-1; there are machines of " +
          first["tags"]["spotps-run"].text()));
  EXPECT_EQ(cloud_.Machines().size(), 1U);
  const Output named = Cloud({"sweep", "--run", first["tags"]["spotps-run"].text(), "--yes"});
  EXPECT_THAT(named.out, testing::HasSubstr("1 machine told to end")) << named.err;
  EXPECT_TRUE(cloud_.Machines().empty());
  EXPECT_EQ(Cloud({"list"}).out, "no machine of any run in region eu-test-1\n");
}

/// Catalogs of providers have prices of a region: no machine could be rented in such a "zone".
TEST_F(RentedTest, APlanByPricesOfTheRegionIsRented) {
  OpenEc2();
  if (IsSkipped()) {
    return;
  }
  const std::string plan = folder_ / "plan.json";
  WriteText(
      plan,
      fmt::format(
          R"({{"job": "{}", "strategy": "exact", "local_steps": 1, "workers":)"
          R"( [{{"instance_type": "g4dn.xlarge", "market": "spot", "count": 2, "minibatch": 32,)"
          R"( "compute_s": 0.04, "link_bytes_per_s": 1e9, "usd_per_hour": 0.2,)"
          R"( "zone": "eu-test-1"}}], "servers": {{"instance_type": "m5.large", "count": 2,)"
          R"( "link_bytes_per_s": 1e9, "usd_per_hour": 0.1}}}})",
          job_.name()));
  options_.arguments = {"--plan", plan};
  TrainRun run(job_, options_);
  Boot();
  AwaitWorker(&run);
  for (const Json& machine : cloud_.Machines()) {
    EXPECT_THAT(machine["zone"].text(), testing::MatchesRegex("eu-test-1[ab]"));
  }
  const Json summary = StopCleanly(&run);
  EXPECT_THAT(
      run.psctl().Err(),
      testing::HasSubstr("the plan has its servers on 2 machines of m5.large, and this run has"));
  ExpectThatAllWentBack(summary);
}

/// The run that goes on rents under another name, and those of before would cost until they end
/// themselves.
TEST_F(RentedTest, AResumeFromACheckpointEndsTheMachinesThatTheRunHadLeft) {
  OpenEc2();
  if (IsSkipped()) {
    return;
  }
  job_.Set("checkpoint", R"({"every_s": 1})");
  TrainRun run(job_, options_);
  Boot();
  AwaitWorker(&run);
  ASSERT_TRUE(
      run.WaitFor([](const proto::JobStatus& status) { return status.checkpoints.newest > 0; }));
  const std::vector<Json> before = cloud_.Machines();
  ASSERT_EQ(before.size(), 2U);
  run.KillCoordinator();
  for (const int64_t pid : run.Children()) {
    ::kill(static_cast<pid_t>(pid), SIGKILL);
  }
  EXPECT_EQ(run.WaitForEnd(), (ProcessEnd{0, SIGKILL}));
  cloud_.Order(R"({"stock": {"g4dn.xlarge spot in eu-test-1a": 0,)"
               R"( "g4dn.xlarge spot in eu-test-1b": 0}})");
  Process resumed(
      {.program = "psctl",
       .arguments = {"resume", run.Root()},
       .directory = folder_.path(),
       .output_stem = folder_ / "resume"});
  EXPECT_TRUE(WaitUntil([&] { return cloud_.Machines().empty(); }, std::chrono::seconds(60)));
  EXPECT_TRUE(WaitUntil(
      [&] {
        return resumed.Err().find("told 2 machines that it had left to end") != std::string::npos;
      },
      kRunPatience))
      << resumed.Err();
  resumed.SignalGroup(SIGINT);
  EXPECT_TRUE(resumed.Wait(kRunPatience).has_value());
}

TEST_F(RentedTest, WithoutStockOrMoneyTheRunSaysWhyAndRentsWhatThereIs) {
  OpenEc2();
  if (IsSkipped()) {
    return;
  }
  // Room for one.
  cloud_.Order(R"({"stock": {"g4dn.xlarge spot in eu-test-1a": 0},)"
               R"( "prices": {"g4dn.xlarge spot in eu-test-1b": 0.4,)"
               R"( "g4dn.xlarge spot in eu-test-1a": 0.4}})");
  job_.Set("budget", R"({"usd_per_hour": 0.5})");
  TrainRun run(job_, options_);
  Boot();
  EXPECT_TRUE(run.WaitFor([](const proto::JobStatus& status) {
    return Alive(status).size() == 1 && status.samples_counted > 0;
  }));
  EXPECT_EQ(cloud_.Machines().size(), 1U);
  EXPECT_EQ(cloud_.Machines().front()["zone"].text(), "eu-test-1b");
  const Json summary = StopCleanly(&run);
  EXPECT_THAT(run.psctl().Err(), testing::HasSubstr("budget.usd_per_hour is $0.5"));
  EXPECT_THAT(
      run.psctl().Err(),
      testing::ContainsRegex(
          "rent +2 spot machines of EC2, \\$0.80 an hour at most, at the prices of now\n"
          "budget +\\$0.50 an hour pay for 1 of them at a time\n"));
  ExpectThatAllWentBack(summary);
}

/// A machine for 36 dollars an hour costs 0.60 for its first minute, and three more minutes of it
/// 1.80: the budget pays for one, and not for two.
TEST_F(RentedTest, ARunEndsBeforeItsBudgetIsSpent) {
  OpenEc2();
  if (IsSkipped()) {
    return;
  }
  MovePrices(36);
  job_.Set("budget", R"({"usd": 4.5})").Set("workers", R"([{"count": 1, "step_ms": 40}])");
  TrainRun run(job_, options_);
  Boot();
  ASSERT_TRUE(run.WaitForSamples(256).has_value());
  const Output scaled = RunToEnd(
      {.program = "psctl",
       .arguments = {"scale", run.Root(), "workers=2"},
       .directory = folder_.path(),
       .output_stem = folder_ / "scale"},
      kRunPatience);
  EXPECT_EQ(scaled.end, ProcessEnd{}) << scaled.err;
  EXPECT_EQ(run.WaitForEnd(), ProcessEnd{}) << "no failure";
  EXPECT_THAT(run.psctl().Err(), testing::HasSubstr("budget.usd is $4.50; ending"));
  const Json summary = run.Summary();
  EXPECT_LE(summary["usd_spent"].number(), 4.5);
  ExpectThatAllWentBack(summary);
  EXPECT_TRUE(std::filesystem::exists(summary["model"].text()));
  EXPECT_GE(summary["checkpoints_written"].number(), 1) << "a last one";
}

TEST_F(RentedTest, TrafficCountsAgainstTheBudget) {
  OpenEc2();
  if (IsSkipped()) {
    return;
  }
  MovePrices(0.01);
  job_.Set("budget", R"({"usd": 5})")
      .Set("workers", R"([{"count": 1, "step_ms": 40}])")
      .Set("traffic", R"({"server_zone": "eu-test-1c", "zone_usd_per_gb": 20})");
  TrainRun run(job_, options_);
  Boot();
  EXPECT_EQ(run.WaitForEnd(), ProcessEnd{}) << "no failure";
  EXPECT_THAT(run.psctl().Err(), testing::HasSubstr("its machines and their traffic have cost $"));
  const Json summary = run.Summary();
  EXPECT_LT(summary["usd_spent"].number(), 0.01);
  EXPECT_GT(summary["traffic_usd"].number(), 0);
  EXPECT_LE(summary["traffic_usd"].number(), 5);
  ExpectThatAllWentBack(summary);
}

/// What this provider's machines run first is plain text.
TEST_F(RentedTest, MachinesOfComputeEngineAreRentedAndGoBackToo) {
  RentedCloud cloud("gce_server.py");
  OpenCloud(&cloud);
  if (IsSkipped()) {
    return;
  }
  ::setenv("GCE_METADATA_HOST", cloud.url().substr(std::string("http://").size()).c_str(), 1);
  RentFrom(
      "gce",
      fmt::format(
          R"("project": "p-1", "endpoint": "{}", "zones": ["us-central1-a"],)"
          R"( "types": ["g2-standard-4"], "image": "global/images/family/spotps",)"
          R"( "usd_per_hour": 36)",
          cloud.url()));
  cloud.Order(R"({"prices": {"g2-standard-4 spot in us-central1-a": 36}})");
  TrainRun run(job_, options_);
  ASSERT_TRUE(WaitUntil([&] { return !cloud.Machines().empty(); }, kRunPatience));
  const Json setup = cloud.Machines().front()["setup"];
  EXPECT_EQ(setup["scheduling"]["maxRunDuration"]["seconds"].text(), "604800");
  EXPECT_EQ(setup["scheduling"]["instanceTerminationAction"].text(), "DELETE");
  const Json items = setup["metadata"]["items"];
  for (size_t i = 0; i < items.size(); i++) {
    if (items[i]["key"].text() == "startup-script") {
      WriteText(place_folder_ / "script", items[i]["value"].text());
    }
  }
  BootPlace(folder_, place_folder_);
  AwaitWorker(&run);
  EXPECT_EQ(cloud.Machines().size(), 2U);
  EXPECT_EQ(run.Status()->usd_per_hour, 72) << "as the job says";
  const Json summary = StopCleanly(&run);
  EXPECT_GE(summary["usd_spent"].number(), 2 * 36.0 / 60) << "a minute of each at least";
  ExpectThatAllWentBack(summary, &cloud);
}

TEST_F(RentedTest, WithoutCredentialsAKeyOrASetupNothingIsRented) {
  OpenEc2();
  if (IsSkipped()) {
    return;
  }
  Rent(R"(, "setup": "/no/such/script")");
  {
    TrainRun run(job_, options_);
    EXPECT_NE(run.WaitForEnd().code, 0);
    EXPECT_THAT(
        run.psctl().Err(), testing::HasSubstr("launch.rent.setup: no file /no/such/script"));
  }
  Rent(R"(, "key_name": "nobody's")");
  {
    TrainRun run(job_, options_);
    EXPECT_NE(run.WaitForEnd().code, 0);
    EXPECT_THAT(
        run.psctl().Err(), testing::HasSubstr("no machine can be rented: key pair nobody's: "));
  }
  {
    RentFrom(
        "ec2",
        R"("region": "eu-test-1", "endpoint": "http://127.0.0.1:1", "zones": ["eu-test-1a"],)"
        R"( "types": ["g4dn.xlarge"], "image": "ami-1")");
    TrainRun run(job_, options_);
    EXPECT_NE(run.WaitForEnd().code, 0);
    EXPECT_THAT(
        run.psctl().Err(), testing::HasSubstr("nothing was started, since the provider does not"));
  }
  ::unsetenv("AWS_ACCESS_KEY_ID");
  ::unsetenv("AWS_SECRET_ACCESS_KEY");
  ::setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
  ::setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null", 1);
  ::setenv("AWS_CONFIG_FILE", "/dev/null", 1);
  Rent("");
  TrainRun run(job_, options_);
  EXPECT_NE(run.WaitForEnd().code, 0);
  EXPECT_THAT(run.psctl().Err(), testing::HasSubstr("AWS_ACCESS_KEY_ID"));
  EXPECT_EQ(cloud_.Book()["machines"].size(), 0U);
}

}  // namespace
}  // namespace ps::e2e
