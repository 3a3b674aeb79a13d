// A run whose coordinator and servers are on a rented machine, too: EC2's fault server, an sshd for
// that machine and one for those of the workers, each of which boots by the user data that EC2 was
// sent, and psctl on both sides.

#include <pwd.h>

#include <filesystem>

#include "tests/e2e/support/elsewhere.h"
#include "tests/e2e/support/rented_cloud.h"

namespace ps::e2e {
namespace {

class RemoteTest : public ElsewhereTest {
 protected:
  /// The head is at 127.0.0.1, as the provider says, and all workers' machines at 127.0.0.2.
  void OpenCloud() {
    Open("sshd.sh");
    if (IsSkipped()) {
      return;
    }
    if (!cloud_.why_not().empty()) {
      GTEST_SKIP() << cloud_.why_not();
    }
    ASSERT_EQ(workers_place_.Start("sshd.sh", workers_folder_.path(), "127.0.0.2"), "");
    cloud_.Order(
        R"({"prices": {"m5.large in eu-test-1a": 0.36, "g4dn.xlarge spot in eu-test-1a": 7.2}})");
    OrderAddresses();
    // Nobody but who has the key of the run's machines gets in.
    for (const TemporaryFolder* const place : {&place_folder_, &workers_folder_}) {
      Shell(folder_, fmt::format("sed -i '/Identit/d' {0}/ssh_config", place->path()));
    }
    WriteText(
        folder_ / "ssh_config",
        ReadText(place_folder_ / "ssh_config") + ReadText(workers_folder_ / "ssh_config"));
    ::setenv("AWS_ACCESS_KEY_ID", "AKIDTEST", 1);
    ::setenv("AWS_SECRET_ACCESS_KEY", "c2VjcmV0LW9mLXRoZS10ZXN0", 1);
    // What the head's role is on a real machine.
    std::filesystem::create_directories(place_folder_ / ".aws");
    WriteText(
        place_folder_ / ".aws/credentials",
        "[default]\naws_access_key_id = AKIDTEST\n"
        "aws_secret_access_key = c2VjcmV0LW9mLXRoZS10ZXN0\n");
    Rent(R"("type": "m5.large", "role": "ml")");
  }

  /// The next machine is a head.
  void OrderAddresses() {
    std::string addresses = R"("127.0.0.1")";
    for (int i = 0; i < 20; i++) {
      addresses += R"(, "127.0.0.2")";
    }
    cloud_.Order(fmt::format(R"({{"addresses": [{}]}})", addresses));
  }

  void Rent(const std::string& head) {
    const passwd* const user = ::getpwuid(::getuid());
    job_.Set(
            "launch",
            fmt::format(
                R"({{"launcher": "ec2", "ssh_config": "{}", "rent": {{"region": "eu-test-1",)"
                R"( "endpoint": "{}", "zones": ["eu-test-1a"], "types": ["g4dn.xlarge"],)"
                R"( "image": "ami-1", "user": "{}", "head": {{{}}}}}}})",
                folder_ / "ssh_config",
                cloud_.url(),
                user != nullptr ? user->pw_name : "root",
                head))
        .Write();
  }

  Process::Options Psctl(const std::vector<std::string>& arguments) {
    return {
        .program = "psctl",
        .arguments = arguments,
        .directory = folder_.path(),
        .output_stem = folder_ / fmt::format("psctl{}", ++calls_)};
  }

  Output Run(const std::vector<std::string>& arguments) {
    return RunToEnd(Psctl(arguments), kRunPatience);
  }

  /// The run's folder here, or that of another run than `but`.
  std::string Root(const std::string& but = "") const {
    for (const auto& entry : std::filesystem::directory_iterator(job_.runs())) {
      if (entry.path().string() != but) {
        return entry.path().string();
      }
    }
    return "";
  }

  /// What psctl says of the run, which it has to ask the head for.
  Json Status(const std::string& root) {
    const Output output = Run({"status", root, "--json"});
    return Json::Parse(output.out).value_or(Json());
  }

  bool AwaitSamples(const std::string& root, double more_than) {
    return WaitUntil(
        [&] { return Status(root)["samples_counted"].number() > more_than; }, kRunPatience);
  }

  /// Stops the run, fetches it, and returns its summary.
  Json StopAndFetch(const std::string& root) {
    const Output stopped = Run({"stop", root});
    EXPECT_EQ(stopped.end, ProcessEnd{}) << stopped.err;
    const Output attached = Run({"attach", root, "--json"});
    EXPECT_EQ(attached.end, ProcessEnd{}) << attached.err;
    EXPECT_TRUE(cloud_.Machines().empty());
    const std::optional<Json> summary = Json::Parse(attached.out);
    EXPECT_TRUE(summary.has_value()) << attached.out << attached.err;
    EXPECT_TRUE(std::filesystem::exists(root + "/model.safetensors"));
    EXPECT_TRUE(std::filesystem::exists(root + "/checkpoints")) << "it was stopped before its end";
    return summary.value_or(Json());
  }

  /// Programs that are there already, as they would be after another run: all but `left_out`.
  void PutPrograms(const std::string& left_out) {
    std::filesystem::create_directories(place_folder_ / "spotps/bin");
    for (const char* const name :
         {"psctl", "ps_coordinator", "ps_server", "ps_worker", "ps_agent"}) {
      if (name != left_out) {
        std::filesystem::create_symlink(
            ProgramPath(name), fmt::format("{}/spotps/bin/{}", place_folder_.path(), name));
      }
    }
  }

  void BootHead() {
    ASSERT_TRUE(WaitUntil([&] { return !cloud_.Machines().empty(); }, kRunPatience));
    BootEc2(folder_, place_folder_, cloud_.Machines().front());
  }

  void BootWorkers() {
    ASSERT_TRUE(WaitUntil([&] { return cloud_.Machines().size() == 3; }, kRunPatience));
    for (const Json& machine : cloud_.Machines()) {
      if (machine["type"].text() == "g4dn.xlarge") {
        BootEc2(folder_, workers_folder_, machine);
        return;
      }
    }
  }

  RentedCloud cloud_{"ec2_server.py"};
  TemporaryFolder workers_folder_;
  provisioner::ClusterScript workers_place_;
  int calls_ = 0;
};

TEST_F(RemoteTest, ARunGoesOnWithoutTheMachineThatBeganItAndIsFetchedWhenItHasEnded) {
  OpenCloud();
  if (IsSkipped()) {
    return;
  }
  const Output checked = Run({"cloud", "check", job_.path()});
  EXPECT_THAT(checked.out, testing::HasSubstr("its head costs 0.36 USD an hour"));
  PutPrograms("ps_agent");
  Process train(Psctl({"train", job_.path(), "--remote"}));
  BootHead();
  BootWorkers();
  ASSERT_TRUE(WaitUntil([&] { return Contains(train.Err(), "attached to"); }, kRunPatience))
      << train.Err();
  EXPECT_THAT(train.Err(), testing::HasSubstr(" of ps_agent\n")) << "it was sent";
  EXPECT_TRUE(Contains(train.Err(), "m5.large for coordinator and servers, $0.36 an hour"));
  ASSERT_TRUE(AwaitSamples(Root(), 0));
  train.Signal(SIGKILL);
  train.Wait();
  const double before = Status(Root())["samples_counted"].number();
  EXPECT_TRUE(AwaitSamples(Root(), before));
  EXPECT_THAT(Run({"runs"}).out, testing::HasSubstr("at "));
  EXPECT_THAT(
      Run({"runs", "--prune", "--yes"}).err, testing::HasSubstr("there is no ended run to remove"));
  EXPECT_THAT(
      Run({"cloud", "sweep", job_.path(), "--yes"}).out, testing::HasSubstr("nothing to end"));
  EXPECT_EQ(cloud_.Machines().size(), 3U);

  const std::string first = Root();
  const double trained = StopAndFetch(first)["samples_counted"].number();
  EXPECT_GT(trained, before);
  EXPECT_TRUE(std::filesystem::exists(first + "/logs/worker0.log"));
  const std::optional<Json> runs = Json::Parse(Run({"runs", "--json"}).out);
  ASSERT_TRUE(runs.has_value());
  const Json book = cloud_.Book();
  EXPECT_NEAR((*runs)[0]["usd_spent"].number(), book["usd"].number(), 0.005);
  EXPECT_EQ(book["left_behind"].size(), 0U) << "launch templates";
  EXPECT_THAT(Run({"attach", first}).out, testing::HasSubstr("samples")) << "what is here";

  // Its machines are gone; it goes on on others.
  OrderAddresses();
  Process resume(Psctl({"resume", first, "--set", "checkpoint.every_s=2", "--detach"}));
  BootHead();
  BootWorkers();
  ASSERT_EQ(resume.Wait(kRunPatience), ProcessEnd{}) << resume.Err();
  EXPECT_THAT(resume.Err(), testing::HasSubstr("going on from checkpoint"));
  const std::string second = Root(first);
  EXPECT_GE(Status(second)["samples_counted"].number(), trained) << "and not anew";
  EXPECT_TRUE(AwaitSamples(second, trained));
  EXPECT_GT(StopAndFetch(second)["samples_counted"].number(), trained);
}

TEST_F(RemoteTest, WhatDoesNotBeginLeavesNothing) {
  OpenCloud();
  if (IsSkipped()) {
    return;
  }
  Rent(R"("type": "m5.large")");
  const Output roleless = Run({"train", job_.path(), "--remote"});
  EXPECT_EQ(roleless.end.code, 2);
  EXPECT_THAT(roleless.err, testing::HasSubstr("set launch.rent.head.role"));
  Rent(R"("role": "ml")");
  EXPECT_THAT(
      Run({"train", job_.path(), "--remote"}).err, testing::HasSubstr("launch.rent.head.type"));
  EXPECT_THAT(
      Run({"train", job_.path(), "--remote", "--no-refine"}).err,
      testing::HasSubstr("--no-refine"));
  EXPECT_TRUE(cloud_.Machines().empty());
  EXPECT_FALSE(std::filesystem::exists(job_.runs())) << "nothing was begun";

  // The head has no such data, which it alone can know.
  Rent(R"("type": "m5.large", "role": "ml")");
  job_.Set("data", R"({"directory": "/no/such/data"})").Write();
  PutPrograms("");
  Process train(Psctl({"train", job_.path(), "--remote"}));
  BootHead();
  const auto end = train.Wait(kRunPatience);
  ASSERT_TRUE(end.has_value());
  EXPECT_NE(end->code, 0);
  EXPECT_THAT(train.Err(), testing::HasSubstr("/no/such/data"));
  EXPECT_TRUE(cloud_.Machines().empty());
  EXPECT_GT(cloud_.Book()["usd"].number(), 0);
  EXPECT_EQ(Root(), "");
}

}  // namespace
}  // namespace ps::e2e
