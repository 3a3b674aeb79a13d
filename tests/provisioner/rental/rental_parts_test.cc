#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pwd.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "provisioner/fleet/agent_process.h"
#include "provisioner/fleet/machine_keys.h"
#include "provisioner/fleet/ssh_agent.h"
#include "provisioner/rental/machine_script.h"
#include "provisioner/rental/pool_memory.h"
#include "provisioner/rental/pool_watch.h"
#include "provisioner/rental/price_history.h"
#include "provisioner/rental/rent_settings.h"
#include "provisioner/rental/rental_note.h"
#include "ps/base/file.h"
#include "tests/base/temporary_folder.h"

namespace ps::provisioner {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const Pool kSpot = {"a", "zone-1", true};
const Pool kOther = {"a", "zone-2", true};

TEST(RentalFilesTest, NotesAreReadAsTheyWereWritten) {
  const TemporaryFolder folder;
  RentalFiles files(folder / "notes");
  EXPECT_THAT(*files.Load(), IsEmpty()) << "no folder yet";
  RentalNote note;
  note.number = 12;
  note.token = "r-1";
  note.pools = {kSpot, kOther};
  note.machine = "i-\"1\"";
  note.pool = kOther;
  note.started_us = 1'700'000'000'000'000;
  note.ended_us = 1'700'000'001'000'000;
  note.usd = 0.1;
  note.is_free = true;
  note.why = "taken";
  note.seat = RentalSeat{proto::ProcessKind::kWorker, 3, LaunchId(7)};
  RentalNote first;
  first.number = 2;
  first.token = "r-0";
  ASSERT_TRUE(files.Write(note).ok());
  ASSERT_TRUE(files.Write(first).ok());
  EXPECT_THAT(*files.Load(), ElementsAre(first, note));
  EXPECT_TRUE(files.Remove(2).ok());
  EXPECT_TRUE(files.Remove(2).ok()) << "again";
  EXPECT_THAT(*files.Load(), ElementsAre(note));
}

TEST(RentalFilesTest, ANoteThatCannotBeReadIsNamedWithWhatToDo) {
  const TemporaryFolder folder;
  for (const char* text :
       {"", "{", "{}", R"({"number": 1})", R"({"number": -1, "token": "a"})", "[]"}) {
    ASSERT_TRUE(WriteFileAtomically(folder / "1.json", text).ok());
    const auto notes = RentalFiles(folder.path()).Load();
    ASSERT_FALSE(notes.ok()) << text;
    EXPECT_EQ(notes.status().code(), StatusCode::kCorruption);
    EXPECT_THAT(std::string(notes.status().message()), HasSubstr("1.json")) << text;
    EXPECT_THAT(std::string(notes.status().message()), HasSubstr("psctl cloud list"));
  }
}

TEST(PoolMemoryTest, APoolWithoutMachinesIsAskedEverMoreSeldom) {
  PoolMemory memory;
  TimePoint now{};
  const std::vector<Pool> pools = {kSpot, kOther};
  for (const int seconds : {30, 60, 120, 240}) {
    memory.NoteFault(kSpot, {CallFault::kNoStock, "none left", {}}, now);
    EXPECT_THAT(memory.Open(pools, now), ElementsAre(kOther));
    EXPECT_THAT(
        memory.WhyLeftOut(pools, now),
        HasSubstr("a spot in zone-1: none left (asked again in " + std::to_string(seconds)));
    now += std::chrono::seconds(seconds - 1);
    EXPECT_THAT(memory.Open(pools, now), ElementsAre(kOther));
    now += std::chrono::seconds(1);
    EXPECT_THAT(memory.Open(pools, now), ElementsAre(kSpot, kOther));
  }
  memory.NoteMachine(kSpot);
  memory.NoteFault(kSpot, {CallFault::kNoStock, "", {}}, now);
  EXPECT_THAT(memory.Open(pools, now + std::chrono::seconds(30)), ElementsAre(kSpot, kOther));
}

TEST(PoolMemoryTest, AQuotaIsNotAskedSoonAndARefusalNeverAgain) {
  PoolMemory memory;
  const TimePoint now{};
  memory.NoteFault(kSpot, {CallFault::kQuota, "8 vCPUs", {}}, now);
  memory.NoteFault(kOther, {CallFault::kRefused, "no such type", {}}, now);
  memory.NoteFault(kOther, {CallFault::kThrottled, "", {}}, now);
  EXPECT_THAT(memory.Open({kSpot, kOther}, now + std::chrono::minutes(29)), IsEmpty());
  EXPECT_THAT(memory.Open({kSpot, kOther}, now + std::chrono::minutes(30)), ElementsAre(kSpot));
  EXPECT_THAT(memory.WhyLeftOut({kOther}, now), HasSubstr("no such type (not asked again)"));
}

TEST(PoolWatchTest, ADearPoolIsLeftLateAndComesBackLater) {
  PoolWatch watch(2);
  TimePoint now{std::chrono::hours(1)};
  const auto is_left_at = [&](double usd, int minutes) {
    now += std::chrono::minutes(minutes);
    watch.Look({{kSpot, usd}, {kOther, 1}}, now);
    EXPECT_EQ(watch.LeaveOf(kOther), nullptr);
    return watch.LeaveOf(kSpot) != nullptr;
  };
  EXPECT_FALSE(is_left_at(2.1, 0));
  EXPECT_FALSE(is_left_at(2.1, 9)) << "it may be a moment";
  EXPECT_FALSE(is_left_at(2, 1)) << "it was one";
  EXPECT_FALSE(is_left_at(2.1, 1));
  EXPECT_TRUE(is_left_at(3, 10));
  EXPECT_EQ(
      watch.LeaveOf(kSpot)->why,
      "a spot in zone-1 costs $3.00 an hour, 3.0 times the cheapest other pool");
  EXPECT_EQ(
      watch.LeaveOf(kSpot)->others,
      "a spot in zone-2 for $1.00 an hour with 0 revocations in the last hour");
  EXPECT_TRUE(is_left_at(1.6, 60)) << "not cheap enough yet";
  EXPECT_FALSE(is_left_at(1.5, 1));
  EXPECT_FALSE(is_left_at(1.9, 60));
}

TEST(PoolWatchTest, APoolThatTakesMuchBackIsLeftUntilItHasNotForAnHour) {
  PoolWatch watch(2);
  TimePoint now{std::chrono::hours(1)};
  const auto is_left = [&] {
    watch.Look({{kSpot, 1}, {kOther, 1}}, now);
    return watch.LeaveOf(kSpot) != nullptr;
  };
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(is_left());
    watch.NoteRevocation(kSpot, now);
    watch.NoteRevocation(kOther, now);
    now += std::chrono::minutes(10);
  }
  EXPECT_FALSE(is_left()) << "the other one is no better";
  for (int i = 0; i < 3; ++i) {
    watch.NoteRevocation(kSpot, now);
  }
  EXPECT_TRUE(is_left());
  EXPECT_THAT(watch.LeaveOf(kSpot)->why, HasSubstr("has taken 6 machines back in the last hour"));
  now += std::chrono::minutes(59);
  EXPECT_TRUE(is_left());
  now += std::chrono::minutes(1);
  EXPECT_FALSE(is_left());
}

TEST(PoolWatchTest, APoolIsComparedWithThoseOfItsTypeAndLeftForNoneThatCostsFarMore) {
  const Pool large = {"large", kOther.zone, true};
  PoolWatch watch(2);
  for (int minutes = 0; minutes < 60; minutes += 5) {
    const TimePoint now{std::chrono::minutes(60 + minutes)};
    watch.NoteRevocation(kSpot, now);
    watch.Look({{kSpot, 0.2}, {kOther, 0.5}, {large, 10}}, now);
  }
  EXPECT_EQ(watch.LeaveOf(kSpot), nullptr) << "the other zone costs 2.5 times as much";
  EXPECT_NE(watch.LeaveOf(kOther), nullptr);
  EXPECT_EQ(watch.LeaveOf(large), nullptr) << "another type";
}

TEST(PoolWatchTest, TheLastPoolAndWhatNobodyAskedForAreNotLeft) {
  PoolWatch alone(2);
  PoolWatch off(0);
  for (int minutes = 0; minutes < 60; minutes += 5) {
    const TimePoint now{std::chrono::minutes(60 + minutes)};
    alone.NoteRevocation(kSpot, now);
    off.NoteRevocation(kSpot, now);
    alone.Look({{kSpot, 9}}, now);
    off.Look({{kSpot, 9}, {kOther, 1}}, now);
  }
  EXPECT_EQ(alone.LeaveOf(kSpot), nullptr);
  EXPECT_EQ(off.LeaveOf(kSpot), nullptr);
}

TEST(PriceHistoryTest, APriceCountsFromTheNextHourOfTheMachine) {
  constexpr int64_t kSecond = 1'000'000;
  PriceHistory history;
  EXPECT_EQ(history.Cost(kSpot, 0, 3600 * kSecond), 0);
  EXPECT_FALSE(history.At(kSpot, 0));
  history.Add({kSpot, 3, 1000 * kSecond});
  history.Add({kSpot, 1, 0});
  EXPECT_EQ(*history.At(kSpot, 999 * kSecond), 1);
  EXPECT_EQ(*history.At(kSpot, 1000 * kSecond), 3);
  EXPECT_DOUBLE_EQ(history.Cost(kSpot, 0, 1800 * kSecond), 0.5);
  EXPECT_DOUBLE_EQ(history.Cost(kSpot, 0, 5400 * kSecond), 1 + 1.5);
  EXPECT_DOUBLE_EQ(history.Cost(kSpot, 0, kSecond), 60.0 / 3600) << "a minute at least";
  EXPECT_DOUBLE_EQ(history.Cost(kSpot, 0, 100 * kSecond + 1), 101.0 / 3600);
}

TEST(PriceHistoryTest, WhatIsPaidNowIsThePriceOfTheHourUnderWay) {
  constexpr int64_t kSecond = 1'000'000;
  PriceHistory history;
  EXPECT_FALSE(history.PaidAt(kSpot, 0, 0));
  history.Add({kSpot, 1, 0});
  history.Add({kSpot, 3, 1000 * kSecond});
  EXPECT_EQ(*history.PaidAt(kSpot, 0, 3599 * kSecond), 1);
  EXPECT_EQ(*history.PaidAt(kSpot, 0, 3600 * kSecond), 3);
  EXPECT_EQ(*history.PaidAt(kSpot, 1001 * kSecond, 1001 * kSecond), 3);
  EXPECT_EQ(*history.PaidAt(kSpot, 900 * kSecond, 4499 * kSecond), 1);
  EXPECT_EQ(*history.PaidAt(kSpot, 900 * kSecond, 800 * kSecond), 1) << "clocks differ";
}

/// The runs of the one are not seen by the other, who took their machines for left behind.
TEST(RentSettingsTest, UsersAndContainersOfOneHostAreDifferentOwners) {
  const OwnerFacts facts = {"Host.example", "id", 1000, 5, 6};
  const std::string owner = OwnerNameOf(facts);
  EXPECT_THAT(owner, testing::MatchesRegex("host-example-[0-9a-f]+"));
  EXPECT_EQ(owner, OwnerNameOf(facts));
  std::vector<OwnerFacts> others(5, facts);
  others[0].host = "another";
  others[1].machine_id = "another";
  others[2].user = 1001;
  others[3].tmp_device = 7;
  others[4].tmp_inode = 7;
  for (const OwnerFacts& other : others) {
    EXPECT_NE(owner, OwnerNameOf(other));
  }
  EXPECT_EQ(OwnerName(), OwnerName());
  OwnerFacts longest = facts;
  longest.host = std::string(200, 'a');
  EXPECT_EQ(OwnerNameOf(longest).size(), 63U) << "a tag's limit";
}

TEST(RentSettingsTest, AGroupHasTheTypesAndZonesThatItNames) {
  proto::RentConfig rent;
  rent.types = {"a", "b"};
  rent.zones = {"zone-1", "zone-2"};
  EXPECT_EQ(PoolsOf(rent).size(), 4U);
  proto::WorkerGroup group;
  group.type = "a";
  group.zones = {"zone-2"};
  EXPECT_THAT(PoolsOf(rent, group), ElementsAre(kOther));
  EXPECT_EQ(TagText("My Run_2.0"), "my-run-2-0");
  EXPECT_EQ(TagText(std::string(200, 'a')).size(), 63U);
}

TEST(RentSettingsTest, TheProviderEndsAMachineThatNobodyEnds) {
  proto::JobConfig config;
  const auto run_max = [&] { return RentalOptionsOf(config, "run", "").setup.run_max; };
  EXPECT_EQ(run_max(), std::chrono::hours(168));
  config.launch.rent.run_max_h = 2;
  config.budget.usd = 20;
  EXPECT_EQ(run_max(), std::chrono::hours(2)) << "nobody knows what one costs";
  config.launch.rent.usd_per_hour = 16;
  EXPECT_EQ(run_max(), std::chrono::minutes(75)) << "then one alone has spent all";
  config.launch.rent.usd_per_hour = 1;
  EXPECT_EQ(run_max(), std::chrono::hours(2));
  config.launch.rent.usd_per_hour = 3600;
  EXPECT_EQ(run_max(), std::chrono::minutes(10)) << "it boots and goes back by itself first";
}

/// The script runs, with programs of the test in the place of those that end a machine.
class MachineScriptTest : public testing::Test {
 protected:
  void SetUp() override {
    bin_ = folder_ / "bin";
    std::filesystem::create_directories(bin_);
    std::filesystem::create_directories(folder_ / "root/etc/ssh");
    std::filesystem::create_directories(folder_ / "root/var/log");
    Stub("systemctl", "touch " + folder_ / "restarted");
    Stub("curl", "exit 6");
    Stub("shutdown", "echo down >> " + folder_ / "shut_down");
  }

  void Stub(const std::string& name, const std::string& text) {
    const std::string path = bin_ + "/" + name;
    ASSERT_TRUE(WriteFileAtomically(path, "#!/bin/sh\n" + text + "\n", 0755).ok());
  }

  void RunScript(uint32_t watch_min, const std::string& setup) {
    MachineBoot boot;
    boot.watch_min = watch_min;
    boot.setup = setup;
    const passwd* const user = ::getpwuid(::getuid());
    boot.user = user != nullptr ? user->pw_name : "root";
    home_ = folder_ / "root" + (user != nullptr ? user->pw_dir : "/root");
    boot.keys = {"SECRET\nKEY\n", "ssh-ed25519 AAAA host", "ssh-ed25519 BBBB login\n"};
    boot.keeps_disk = keeps_disk_;
    const auto script = MachineScript(boot);
    ASSERT_TRUE(script.ok()) << script.status();
    ASSERT_TRUE(WriteFileAtomically(folder_ / "script", *script).ok());
    Run("sh " + folder_ / "script");
  }

  std::string Run(const std::string& command) {
    const auto output = RunCommand(
        {"sh", "-c", "SPOTPS_ROOT=" + folder_ / "root" + " PATH=" + bin_ + ":$PATH " + command},
        "",
        std::chrono::seconds(20));
    return output.ok() ? *output : std::string(output.status().message());
  }

  std::string ReadWatch() const { return *ReadFile(folder_ / "root/usr/local/sbin/spotps-watch"); }

  bool Has(const std::string& name) const { return std::filesystem::exists(folder_ / name); }

  TemporaryFolder folder_;
  std::string bin_;
  std::string home_;
  bool keeps_disk_ = false;
};

TEST_F(MachineScriptTest, SshShowsTheKeyOfTheRunOnceTheSetupHasEndedWell) {
  Stub("setsid", "touch " + folder_ / "watched");
  std::filesystem::create_directories(folder_ / "root/var/lib/cloud/scripts/per-boot");
  RunScript(15, "#!/bin/sh\necho \"it's\" > " + folder_ / "set_up\n");
  EXPECT_TRUE(Has("watched"));
  EXPECT_THAT(
      *ReadFile(folder_ / "root/var/lib/cloud/scripts/per-boot/spotps"),
      HasSubstr("setsid /usr/local/sbin/spotps-watch"))
      << "after each boot";
  EXPECT_EQ(*ReadFile(folder_ / "set_up"), "it's\n");
  EXPECT_EQ(*ReadFile(folder_ / "root/etc/ssh/ssh_host_ed25519_key"), "SECRET\nKEY\n");
  struct stat info = {};
  ASSERT_EQ(::stat((folder_ / "root/etc/ssh/ssh_host_ed25519_key").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 077, 0U);
  EXPECT_TRUE(Has("restarted"));
  EXPECT_FALSE(Has("shut_down"));
}

/// A machine of Compute Engine runs it at each boot.
TEST_F(MachineScriptTest, WhoHasTheLoginKeyGetsInBesideThoseWhoDidBefore) {
  Stub("setsid", "");
  RunScript(15, "");
  EXPECT_EQ(*ReadFile(home_ + "/.ssh/authorized_keys"), "ssh-ed25519 BBBB login\n");
  ASSERT_TRUE(WriteFileAtomically(home_ + "/.ssh/authorized_keys", "ssh-rsa CCCC me\n").ok());
  RunScript(15, "");
  RunScript(15, "");
  EXPECT_EQ(
      *ReadFile(home_ + "/.ssh/authorized_keys"), "ssh-rsa CCCC me\nssh-ed25519 BBBB login\n");
}

TEST_F(MachineScriptTest, AMachineWhoseSetupFailsEndsAndLetsNobodyIn) {
  Stub("setsid", "");
  RunScript(15, "#!/bin/sh\nexit 3\n");
  EXPECT_TRUE(Has("shut_down"));
  EXPECT_FALSE(Has("restarted"));
  EXPECT_FALSE(Has("root/etc/ssh/ssh_host_ed25519_key"));
}

TEST_F(MachineScriptTest, AMachineWithoutAProcessOfOursEndsItself) {
  Stub("setsid", "");
  const std::string watch = "SPOTPS_WATCH_EVERY_S=0.05 SPOTPS_PROC=" + folder_ / "proc";
  std::filesystem::create_directories(folder_ / "proc/42");
  std::filesystem::create_directories(folder_ / "proc/43");
  RunScript(0, "");
  // Nobody of ours: not this watch either, nor a script of a user.
  ASSERT_TRUE(
      WriteFileAtomically(folder_ / "proc/42/cmdline", ReadWatch() + "python3 train.py").ok());
  Run(watch + " sh " + folder_ / "root/usr/local/sbin/spotps-watch");
  EXPECT_TRUE(Has("shut_down"));

  // What a worker runs behind, whatever that becomes: the watch goes on until the test stops it.
  std::filesystem::remove(folder_ / "shut_down");
  ASSERT_TRUE(
      WriteFileAtomically(folder_ / "proc/43/cmdline", "/bin/sh -c " + std::string(SshBootstrap()))
          .ok());
  Run(watch + " timeout 2.5 sh " + folder_ / "root/usr/local/sbin/spotps-watch");
  EXPECT_FALSE(Has("shut_down"));
}

/// One that has stopped would keep its disk.
TEST_F(MachineScriptTest, AMachineOfComputeEngineDeletesItself) {
  Stub("setsid", "");
  Stub(
      "curl",
      "case \"$*\" in\n"
      "*-X*DELETE*) echo \"$*\" >> " +
          folder_ / "deleted" +
          ";;\n"
          "*/instance/service-accounts/default/token)\n"
          "  echo '{\"access_token\":\"ya29.x\",\"expires_in\":3599}';;\n"
          "*/instance/zone) echo projects/1/zones/us-central1-a;;\n"
          "*/instance/name) echo r-1;;\n"
          "*) exit 22;;\n"
          "esac");
  RunScript(15, "#!/bin/sh\nexit 3\n");
  ASSERT_TRUE(Has("deleted"));
  EXPECT_THAT(
      *ReadFile(folder_ / "deleted"),
      testing::AllOf(
          HasSubstr("Authorization: Bearer ya29.x"),
          HasSubstr("https://compute.googleapis.com/compute/v1/projects/1/zones/us-central1-a/"
                    "instances/r-1\n")));
  EXPECT_TRUE(Has("shut_down")) << "its role may not allow it";

  std::filesystem::remove(folder_ / "deleted");
  std::filesystem::remove(folder_ / "shut_down");
  keeps_disk_ = true;
  RunScript(15, "#!/bin/sh\nexit 3\n");
  EXPECT_TRUE(Has("shut_down"));
  EXPECT_FALSE(Has("deleted")) << "somebody comes for what is on it";
}

TEST_F(MachineScriptTest, WhatAProviderDoesNotTakeIsRefused) {
  const auto why = [](const std::string& setup) {
    MachineBoot boot;
    boot.setup = setup;
    return std::string(MachineScript(boot).status().message());
  };
  EXPECT_THAT(why(std::string(20'000, 'x')), HasSubstr("launch.rent.setup is"));
  EXPECT_THAT(why("echo a"), HasSubstr("does not begin with #!"));
  EXPECT_THAT(why("#!/bin/sh\nSPOTPS_END\nb"), HasSubstr("SPOTPS_END"));
}

TEST(MachineKeysTest, ARunHasOneKeyEachWayWhichSshKnows) {
  const TemporaryFolder folder;
  const auto keys = MachineKeysIn(folder / "keys");
  if (!keys.ok() && keys.status().code() == StatusCode::kNotFound) {
    GTEST_SKIP() << keys.status().message();
  }
  ASSERT_TRUE(keys.ok()) << keys.status();
  EXPECT_THAT(keys->host_secret, HasSubstr("OPENSSH PRIVATE KEY"));
  EXPECT_EQ(*ReadFile(KnownHostsIn(folder / "keys")), "* " + keys->host + "\n");
  EXPECT_THAT(*ReadFile(LoginKeyIn(folder / "keys")), HasSubstr("OPENSSH PRIVATE KEY"));
  EXPECT_NE(keys->login, keys->host);
  const auto again = MachineKeysIn(folder / "keys");
  EXPECT_EQ(again->host_secret, keys->host_secret) << "the same for a successor";
  EXPECT_EQ(again->login, keys->login);
}

}  // namespace
}  // namespace ps::provisioner
