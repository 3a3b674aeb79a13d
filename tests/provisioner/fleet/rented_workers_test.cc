// What a JobFleet does with workers whose machines are rented.

#include <gmock/gmock.h>

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ps/proto/worker_start.h"
#include "tests/provisioner/fleet/scripted_fleet.h"

namespace ps::provisioner {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;

/// Notes what is asked for; machines come and go when the test says so.
class ScriptedHosts final : public RentedHosts {
 public:
  void Ask(const RentalSeat& seat, const proto::WorkerGroup& group) override {
    asked.push_back(seat);
    groups.push_back(group);
  }

  void Drop(const RentalSeat& seat, bool is_bad) override { dropped.emplace_back(seat, is_bad); }

  void Adopt(const std::set<RentalSeat>& running) override { adopted = running; }

  std::vector<RentalEvent> TakeEvents() override { return std::exchange(events, {}); }

  void Tell(
      RentalEvent::Kind kind,
      const RentalSeat& seat,
      const std::string& why = "",
      std::optional<TimePoint> asked_at = {}) {
    RentalEvent event;
    event.asked_at = asked_at;
    event.kind = kind;
    event.seat = seat;
    event.why = why;
    event.is_revoked = kind == RentalEvent::Kind::kLost;
    event.machine.id = "i-1";
    event.machine.pool = {"g4dn.xlarge", "zone-a", true};
    event.machine.address = "1.2.3.4";
    event.machine.private_address = "10.0.0.4";
    events.push_back(event);
  }

  std::vector<RentalSeat> asked;
  std::vector<proto::WorkerGroup> groups;
  std::vector<std::pair<RentalSeat, bool>> dropped;
  std::set<RentalSeat> adopted;
  std::vector<RentalEvent> events;
};

class RentedWorkersTest : public JobFleetTest {
 protected:
  void SetUp() override {
    JobFleetTest::SetUp();
    JobFleet::Options options = options_;
    options.launch.launcher = proto::LauncherKind::kEc2;
    options.launch.rent.boot_s = 300;
    options.rented = &hosts_;
    options.machine_keys = "/run/rentals";
    Make(options);
  }

  static RentalSeat Seat(uint32_t index, uint64_t launch) {
    return {proto::ProcessKind::kWorker, index, LaunchId(launch)};
  }

  void End(uint64_t handle, uint32_t seat, int code) {
    launcher_.exits = {
        {ProcessHandle(handle),
         proto::ProcessKind::kWorker,
         seat,
         code == 0,
         code != 0,
         "ended",
         code}};
  }

  ScriptedHosts hosts_;
};

TEST_F(RentedWorkersTest, AWorkerIsStartedByItsAgentOnceItsMachineIsThere) {
  proto::WorkerGroup group;
  group.zones = {"zone-a"};
  StartWorker(WorkerId(2), group);
  EXPECT_THAT(launcher_.started, IsEmpty());
  EXPECT_THAT(hosts_.asked, ElementsAre(Seat(2, 1)));
  EXPECT_EQ(hosts_.groups.at(0).zones, group.zones);
  EXPECT_THAT(fleet_->TakeEnds(), IsEmpty());

  hosts_.Tell(RentalEvent::Kind::kReady, Seat(2, 1));
  EXPECT_THAT(fleet_->TakeEnds(), IsEmpty());
  ASSERT_EQ(launcher_.started.size(), 1U);
  const LaunchSpec& spec = launcher_.started[0];
  EXPECT_EQ(spec.launch, LaunchId(1));
  EXPECT_EQ(spec.program, folder_ / "ps_agent");
  EXPECT_THAT(spec.arguments, IsSupersetOf({"--launcher", "ssh", "--host", "ubuntu@1.2.3.4"}));
  EXPECT_THAT(spec.arguments, IsSupersetOf({"--machine-keys", "/run/rentals", "--boot-s", "300"}));
  EXPECT_THAT(spec.arguments, IsSupersetOf({"--zone", "zone-a"})) << "for who adopts it";
  EXPECT_EQ(fleet_->ZoneOf(WorkerId(2)), "zone-a");
  EXPECT_EQ(fleet_->ZoneOf(WorkerId(1)), "");
  EXPECT_THAT(hosts_.dropped, IsEmpty());

  End(1, 2, 0);
  EXPECT_EQ(fleet_->TakeEnds().size(), 1U);
  EXPECT_THAT(hosts_.dropped, ElementsAre(std::pair(Seat(2, 1), false)));
}

TEST_F(RentedWorkersTest, ItsPrivateAddressIsUsedWhereTheJobSaysSo) {
  JobFleet::Options options = options_;
  options.launch.rent.private_address = true;
  options.launch.rent.user = "me";
  Make(options);
  StartWorker(WorkerId(0), {});
  hosts_.Tell(RentalEvent::Kind::kReady, Seat(0, 1));
  fleet_->TakeEnds();
  EXPECT_THAT(launcher_.started.at(0).arguments, IsSupersetOf({"--host", "me@10.0.0.4"}));
}

TEST_F(RentedWorkersTest, WithoutAMachineTheCoordinatorIsToldWhyAndTriesElsewhere) {
  StartWorker(WorkerId(0), {});
  hosts_.Tell(RentalEvent::Kind::kFailed, Seat(0, 1), "zone-a has none");
  const std::vector<proto::ProcessEnd> ends = fleet_->TakeEnds();
  ASSERT_EQ(ends.size(), 1U);
  EXPECT_FALSE(ends[0].is_failure) << "the program has not run";
  EXPECT_TRUE(ends[0].is_place);
  EXPECT_EQ(ends[0].last_words, "zone-a has none");
  EXPECT_THAT(launcher_.started, IsEmpty());
}

TEST_F(RentedWorkersTest, AWorkerThatIsNotWantedAnyMoreGivesItsMachineBack) {
  StartWorker(WorkerId(0), {});
  fleet_->KillWorker(WorkerId(0));
  EXPECT_THAT(hosts_.dropped, ElementsAre(std::pair(Seat(0, 1), false)));
  const std::vector<proto::ProcessEnd> ends = fleet_->TakeEnds();
  ASSERT_EQ(ends.size(), 1U);
  EXPECT_EQ(ends[0].launch, LaunchId(1));
  // The machine that was on its way comes all the same.
  hosts_.dropped.clear();
  hosts_.Tell(RentalEvent::Kind::kReady, Seat(0, 1));
  EXPECT_THAT(fleet_->TakeEnds(), IsEmpty());
  EXPECT_THAT(hosts_.dropped, ElementsAre(std::pair(Seat(0, 1), false)));
  EXPECT_THAT(launcher_.started, IsEmpty());
}

TEST_F(RentedWorkersTest, AMachineThatIsTakenBackIsNoFailureOfTheWorker) {
  StartWorker(WorkerId(0), {});
  hosts_.Tell(RentalEvent::Kind::kReady, Seat(0, 1));
  fleet_->TakeEnds();
  hosts_.Tell(RentalEvent::Kind::kLost, Seat(0, 1), "taken");
  EXPECT_THAT(fleet_->TakeEnds(), IsEmpty());
  EXPECT_THAT(launcher_.killed, ElementsAre(1U));
  launcher_.exits = {
      {ProcessHandle(1), proto::ProcessKind::kWorker, 0, false, true, "killed by signal 9"}};
  const std::vector<proto::ProcessEnd> ends = fleet_->TakeEnds();
  ASSERT_EQ(ends.size(), 1U);
  EXPECT_EQ(ends[0].description, "was taken back");
  EXPECT_FALSE(ends[0].is_failure);
  EXPECT_TRUE(ends[0].is_place);
}

TEST_F(RentedWorkersTest, AHostThatNobodyGetsIntoGoesBackAtOnce) {
  StartWorker(WorkerId(0), {});
  hosts_.Tell(RentalEvent::Kind::kReady, Seat(0, 1));
  fleet_->TakeEnds();
  End(1, 0, kNotStartedExit);
  fleet_->TakeEnds();
  EXPECT_THAT(hosts_.dropped, ElementsAre(std::pair(Seat(0, 1), true)));
}

/// It stayed with a seat that nobody had any more, and the next launch rented one more beside it.
TEST_F(RentedWorkersTest, AMachineWhoseProcessCannotBeStartedHereIsFreeForTheNextOne) {
  launcher_.fails = true;
  StartWorker(WorkerId(0), {});
  hosts_.Tell(RentalEvent::Kind::kReady, Seat(0, 1));
  EXPECT_EQ(fleet_->TakeEnds().size(), 1U);
  EXPECT_THAT(hosts_.dropped, ElementsAre(std::pair(Seat(0, 1), false)));

  hosts_.dropped.clear();
  launcher_.fails = false;
  JobFleet::Options options = options_;
  options.make_token_file = [](proto::ProcessKind, uint32_t) -> Result<std::string> {
    return Status::Io("the disk is full");
  };
  Make(options);
  StartWorker(WorkerId(0), {});
  hosts_.Tell(RentalEvent::Kind::kReady, Seat(0, 2));
  const std::vector<proto::ProcessEnd> ends = fleet_->TakeEnds();
  ASSERT_EQ(ends.size(), 1U);
  EXPECT_EQ(ends[0].description, "the disk is full");
  EXPECT_THAT(hosts_.dropped, ElementsAre(std::pair(Seat(0, 2), false)));
  EXPECT_THAT(launcher_.started, IsEmpty());
}

/// Its subnet gives none, for example: ssh would have been told to go to "me@".
TEST_F(RentedWorkersTest, AMachineWithoutTheAddressThatTheJobUsesGoesBackWithTheReason) {
  StartWorker(WorkerId(0), {});
  hosts_.Tell(RentalEvent::Kind::kReady, Seat(0, 1));
  hosts_.events.back().machine.address.clear();
  const std::vector<proto::ProcessEnd> ends = fleet_->TakeEnds();
  ASSERT_EQ(ends.size(), 1U);
  EXPECT_EQ(ends[0].launch, LaunchId(1));
  EXPECT_FALSE(ends[0].is_failure);
  EXPECT_TRUE(ends[0].is_place) << "the subnet of another zone may give one";
  EXPECT_THAT(ends[0].last_words, HasSubstr("machine i-1"));
  EXPECT_THAT(ends[0].last_words, HasSubstr("has no public address"));
  EXPECT_THAT(ends[0].last_words, HasSubstr("launch.rent.private_address"));
  EXPECT_THAT(hosts_.dropped, ElementsAre(std::pair(Seat(0, 1), true)));
  EXPECT_THAT(launcher_.started, IsEmpty());

  JobFleet::Options options = options_;
  options.launch.rent.private_address = true;
  Make(options);
  StartWorker(WorkerId(0), {});
  hosts_.Tell(RentalEvent::Kind::kReady, Seat(0, 2));
  hosts_.events.back().machine.private_address.clear();
  EXPECT_THAT(fleet_->TakeEnds().at(0).last_words, HasSubstr("has no private address"));
  EXPECT_THAT(launcher_.started, IsEmpty());
}

TEST_F(RentedWorkersTest, ASuccessorSaysWhichProcessesStillRun) {
  fleet_->Adopt(std::vector<proto::LaunchRecord>{
      {proto::ProcessKind::kWorker, 3, LaunchId(9), 77, 5},
      {proto::ProcessKind::kWorker, 4, LaunchId(8), 78, 0}});
  EXPECT_THAT(hosts_.adopted, ElementsAre(Seat(3, 9)));
}

TEST_F(RentedWorkersTest, AStartIsToldWithItsMachineUnlessThatWasThereBefore) {
  std::vector<proto::WorkerStart> starts;
  JobFleet::Options options = options_;
  options.on_start = [&](const proto::WorkerStart& start) { starts.push_back(start); };
  Make(options);
  StartWorker(WorkerId(0), {});
  EXPECT_THAT(starts, IsEmpty()) << "there is no machine yet";
  const TimePoint asked = options_.time->Now() - std::chrono::seconds(30);
  hosts_.Tell(RentalEvent::Kind::kReady, Seat(0, 1), "", asked);
  fleet_->TakeEnds();
  ASSERT_EQ(starts.size(), 1U);
  EXPECT_EQ(starts[0].launch, LaunchId(1));
  EXPECT_EQ(starts[0].type, "g4dn.xlarge");
  EXPECT_EQ(starts[0].zone, "zone-a");
  EXPECT_EQ(starts[0].asked, asked);
  ASSERT_TRUE(starts[0].machine_up.has_value());
  EXPECT_GE(*starts[0].machine_up - asked, std::chrono::seconds(30));

  StartWorker(WorkerId(1), {});
  hosts_.Tell(RentalEvent::Kind::kReady, Seat(1, 2));
  fleet_->TakeEnds();
  EXPECT_EQ(launcher_.started.size(), 2U);
  EXPECT_EQ(starts.size(), 1U);
}

}  // namespace
}  // namespace ps::provisioner
