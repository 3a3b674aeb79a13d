#include "ps/proto/state/job_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "ps/base/file.h"
#include "ps/proto/codec/control_fields.h"
#include "ps/proto/codec/shard_fields.h"
#include "ps/proto/codec/state_fields.h"
#include "ps/proto/codec/worker_fields.h"
#include "ps/proto/state/job_rows.h"
#include "tests/proto/differences.h"
#include "tests/proto/sample.h"

namespace ps::proto {
namespace {

using tests::Filler;
using tests::FirstDifference;
using tests::Same;

MemberRecord SampleMember(Filler* filler) {
  MemberRecord member;
  filler->Fill(member);
  member.last_grant.begin = 3;
  member.last_grant.end = 4;
  return member;
}

EpochRecord SampleEpoch() {
  EpochRecord epoch;
  epoch.fresh = 50;
  epoch.returned.Insert(7, 9);
  epoch.returned.Insert(20, 30);
  epoch.counted.Insert(0, 7);  // [35, 40) is leased
  epoch.counted.Insert(9, 20);
  epoch.counted.Insert(30, 35);
  epoch.counted.Insert(40, 50);
  epoch.samples_returned = 44;
  return epoch;
}

/// Every member of every part has a value that is not the default.
JobState SampleState() {
  Filler filler;
  JobState state;
  state.config_json = "{}";
  state.phase = JobPhase::kStopping;
  state.outcome = Status::Cancelled("enough");
  state.stop_reason = "why";
  state.leave_reason = "gone";
  state.is_told_shards = true;
  state.restarts = 4;
  filler.Fill(state.placement);
  filler.Fill(state.shards);
  const MemberRecord member = SampleMember(&filler);
  state.membership.generation = Generation(70);
  state.membership.incarnation_max = Incarnation(71);
  state.membership.members[member.incarnation] = member;
  DepartureRecord departure;
  departure.member = SampleMember(&filler);
  departure.kind = LeaveKind::kDrained;
  departure.reason = "notice";
  departure.has_said_goodbye = true;
  filler.Fill(departure.answers[ShardId(1)]);
  departure.is_resolved = true;
  departure.kept_for_round = 5;
  departure.generation = Generation(60);
  state.membership.departures[departure.member.incarnation] = departure;
  state.membership.acknowledged[ShardId(1)] = Generation(69);
  state.membership.gone.push_back({SampleMember(&filler), LeaveKind::kFailed, "other data"});
  state.membership.gone_before = 7;
  state.seats = {
      9,
      {{WorkerId(8), 2}},
      {{WorkerId(7), 1}},
      {WorkerId(4), WorkerId(5)},
      {WorkerId(4)},
      {{WorkerId(3), "exited"}},
      {{WorkerId(2), LaunchId(41)}},
      {{WorkerId(3), {"no heartbeat", 2}}}};
  state.last_launch = LaunchId(42);
  state.wanted = {4, 1};
  state.ledger.last_lease = LeaseId(90);
  state.ledger.epochs = {SampleEpoch()};
  state.ledger.leases[LeaseId(81)] = {LeaseId(81), Incarnation(3), 0, 30, 40, 35};
  filler.Fill(state.evaluations.pending);
  filler.Fill(state.evaluations.results);
  filler.Fill(state.evaluations.figures);
  for (size_t i = 0; i < state.evaluations.figures.size(); ++i) {
    state.evaluations.figures[i].epoch = state.evaluations.results[i].epoch;
  }
  filler.Fill(state.evaluations.last.emplace());
  filler.Fill(state.evaluations.last_figures);
  state.epochs_finished = 3;
  state.rounds.committed = 6;
  filler.Fill(state.rounds.entries[Incarnation(4)]);
  filler.Fill(state.rounds.commit.emplace());
  state.rounds.acks.insert(ShardId(2));
  state.faults_fired = 2;
  state.kills[WorkerId(1)] = {Incarnation(2), std::chrono::seconds(3), true, true};
  state.handovers[1] = {std::chrono::seconds(4), 5, std::chrono::seconds(2)};
  filler.Fill(state.data.emplace());
  filler.Fill(state.meter);
  filler.Fill(state.counters);
  state.age = std::chrono::seconds(100);
  state.clock = std::chrono::seconds(7000);
  state.pause = {true, 6};
  state.usd = 1.5;
  state.trained = std::chrono::seconds(90);
  state.is_trained = true;
  state.model = {true, "a file", "a problem"};
  filler.Fill(state.checkpoints);
  filler.Fill(state.servers);
  filler.Fill(state.modes);
  filler.Fill(state.park);
  filler.Fill(state.steps);
  filler.Fill(state.places);
  filler.Fill(state.policy);
  state.events.before = 4;
  filler.Fill(state.events.last.emplace_back());
  state.finish = {FinishStep::kTest, true, "no better epoch"};
  state.frozen_crc = 0x1234;
  state.traffic = {7, 8, 0.5};
  return state;
}

/// So many members are as they are made.
template <typename T>
size_t CountUntouched(const T& value) {
  const T untouched{};
  const auto left = tests::Members(value);
  const auto right = tests::Members(untouched);
  return [&]<size_t... I>(std::index_sequence<I...>) {
    return (size_t{Same(std::get<I>(left), std::get<I>(right))} + ...);
  }
  (std::make_index_sequence<std::tuple_size_v<decltype(left)>>());
}

TEST(JobStateTest, TheSampleHasEveryMember) {
  const JobState state = SampleState();
  EXPECT_EQ(CountUntouched(state), 0U);
  EXPECT_EQ(CountUntouched(state.membership), 0U);
  EXPECT_EQ(CountUntouched(state.membership.departures.begin()->second), 0U);
  EXPECT_EQ(CountUntouched(state.seats), 0U);
  EXPECT_EQ(CountUntouched(state.ledger), 0U);
  EXPECT_EQ(CountUntouched(state.rounds), 0U);
}

TEST(JobStateTest, EveryMemberComesBack) {
  const JobState state = SampleState();
  const Result<JobState> back = DecodeJobState(EncodeJobState(state));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(FirstDifference(*back, state), "");
  EXPECT_TRUE(Same(*back, state)) << "in a member that no list has";
}

TEST(JobStateTest, ADifferenceIsNamedByItsPlace) {
  const JobState state = SampleState();
  JobState other = state;
  other.membership.members.begin()->second.stats.steps = 1;
  const uint64_t steps = state.membership.members.begin()->second.stats.steps;
  EXPECT_EQ(
      FirstDifference(state, other),
      ".membership.members[0].stats.steps: " + std::to_string(steps) + ", not 1");
  other = state;
  other.seats.expected.clear();
  EXPECT_EQ(FirstDifference(state, other), ".seats.expected: 2 items, not 0");
  EXPECT_FALSE(Same(state, other));
}

TEST(JobStateTest, AnEmptyStateComesBackEmpty) {
  const Result<JobState> back = DecodeJobState(EncodeJobState(JobState{}));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_FALSE(back->trained.has_value());
  EXPECT_FALSE(back->data.has_value());
  EXPECT_FALSE(back->rounds.commit.has_value());
  EXPECT_TRUE(back->outcome.ok());
}

TEST(JobStateTest, EveryFlippedBitIsFound) {
  const std::vector<std::byte> bytes = EncodeJobState(SampleState());
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::vector<std::byte> damaged = bytes;
    damaged[i] ^= std::byte(1U << (i % 8));
    EXPECT_FALSE(DecodeJobState(damaged).ok()) << "byte " << i;
  }
}

TEST(JobStateTest, EveryTornStateIsFound) {
  const std::vector<std::byte> bytes = EncodeJobState(SampleState());
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(DecodeJobState(std::span(bytes).first(size)).ok()) << size << " bytes";
  }
}

TEST(JobStateTest, AnotherVersionIsUnsupported) {
  std::vector<std::byte> bytes = EncodeJobState(JobState{});
  bytes[4] = std::byte{kJobStateVersion + 1};
  const Status status = DecodeJobState(bytes).status();
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  const std::string text = "version " + std::to_string(kJobStateVersion + 1) +
                           "; this program reads 14 to " + std::to_string(kJobStateVersion) +
                           "; use a program that is newer";
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr(text));
}

/// What the program of this version wrote of the SampleState that it had.
std::vector<std::byte> SavedBy(uint32_t version) {
  const std::string path = "tests/data/job_state/v" + std::to_string(version) + ".bin";
  const Result<std::string> file = ReadFile(path);
  EXPECT_TRUE(file.ok()) << file.status();
  const auto bytes = std::as_bytes(std::span(file.ok() ? *file : path));
  return {bytes.begin(), bytes.end()};
}

/// A new version needs a file here, and so does one that has got fields since.
TEST(JobStateTest, StatesOfOlderProgramsAreRead) {
  const JobState sample = SampleState();
  std::vector<std::vector<std::byte>> again;
  for (const uint32_t version : {14U, 15U}) {
    const Result<JobState> back = DecodeJobState(SavedBy(version));
    ASSERT_TRUE(back.ok()) << version << ": " << back.status();
    EXPECT_EQ(back->stop_reason, sample.stop_reason);
    EXPECT_EQ(back->servers.wanted, 210U);  // the samples of that time had fewer fields before it
    EXPECT_EQ(back->servers.pins.size(), sample.servers.pins.size());
    EXPECT_EQ(back->last_launch, sample.last_launch);
    EXPECT_TRUE(Same(back->ledger.epochs, sample.ledger.epochs));
    again.push_back(EncodeJobState(*back));
  }
  EXPECT_EQ(again[0], again[1]) << "both had the same state";
}

TEST(JobStateTest, AStateFromBeforeTrafficWasCountedHasNone) {
  const JobState sample = SampleState();
  const Result<JobState> back = DecodeJobState(SavedBy(16));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->usd, sample.usd);
  EXPECT_EQ(back->finish.why, sample.finish.why);
  EXPECT_EQ(back->traffic, TrafficRecord());
  for (const auto& [incarnation, member] : back->membership.members) {
    EXPECT_EQ(member.zone, "");
    EXPECT_EQ(member.pushed_counted, 0U);
  }
}

/// Of much data workers make other checksums than programs before this version did.
TEST(JobStateTest, SumsOfMuchDataAreForgottenWhereTheyAreOfAnOlderProgram) {
  JobState state = SampleState();
  const auto is_known = [&state](uint64_t samples, uint32_t version) {
    DatasetFingerprint& print = state.data->fingerprint;
    print.channels = 1;
    print.height = 128;
    print.width = 1;
    print.train_count = samples;
    print.test_count = 1;
    std::vector<std::byte> bytes = EncodeJobState(state);
    constexpr size_t kVersionAt = 4;
    std::memcpy(bytes.data() + kVersionAt, &version, sizeof version);
    const Result<JobState> back = DecodeJobState(bytes);
    PS_CHECK(back.ok()) << back.status();
    return back->data.has_value();
  };
  constexpr uint64_t kMuch = 200'000;  // samples of 512 bytes
  EXPECT_FALSE(is_known(kMuch, 15));
  EXPECT_TRUE(is_known(kMuch, kJobStateVersion));
  EXPECT_TRUE(is_known(1000, 15));
}

TEST(JobStateTest, StatesOfThisVersionAreRead) {
  const std::string path = "tests/data/job_state/v" + std::to_string(kJobStateVersion) + ".bin";
  const std::vector<std::byte> sample = EncodeJobState(SampleState());
  if (const Result<std::string> file = ReadFile(path); !file.ok()) {
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(sample.data()), std::ssize(sample));
    FAIL() << file.status() << "; it has this program's state now";
  }
  const Result<JobState> back = DecodeJobState(SavedBy(kJobStateVersion));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(EncodeJobState(*back), sample);
}

TEST(JobStateTest, DamageInAnOlderStateIsFound) {
  const std::vector<std::byte> bytes = SavedBy(14);
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::vector<std::byte> damaged = bytes;
    damaged[i] ^= std::byte(1U << (i % 8));
    EXPECT_FALSE(DecodeJobState(damaged).ok()) << "byte " << i;
  }
}

TEST(JobStateTest, ALongTextIsCutSoThatItCanBeRead) {
  JobState state;
  state.leave_reason = std::string(100000, 'x');
  const Result<JobState> back = DecodeJobState(EncodeJobState(state));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->leave_reason.size(), 16U << 10U);
}

/// The rows of a state, with their keys.
std::map<std::string, std::vector<std::byte>> RowsOf(const JobState& state) {
  std::map<std::string, std::vector<std::byte>> rows;
  for (const RowId id : ListRows(state)) {
    rows[RowKey(id)] = EncodeRow(state, id).value();
  }
  return rows;
}

Result<JobState> Merged(const std::map<std::string, std::vector<std::byte>>& rows) {
  std::vector<SavedRow> all;
  for (const auto& [key, value] : rows) {
    all.push_back({key, value});
  }
  return MergeRows(all);
}

TEST(JobRowsTest, TheRowsOfAStateMakeIt) {
  const JobState state = SampleState();
  const auto rows = RowsOf(state);
  std::set<std::string> kinds;
  for (const auto& [key, value] : rows) {
    kinds.insert(key.substr(0, key.find('/')));
  }
  EXPECT_EQ(kinds.size(), kRowKinds) << "the sample has rows of every kind";
  const Result<JobState> back = Merged(rows);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(EncodeJobState(*back), EncodeJobState(state));
}

TEST(JobRowsTest, AnEmptyStateIsMadeOfItsRowsToo) {
  const Result<JobState> back = Merged(RowsOf(JobState{}));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(EncodeJobState(*back), EncodeJobState(JobState{}));
}

TEST(JobRowsTest, ARowThatTheStateDoesNotHaveIsNothing) {
  const JobState state = SampleState();
  EXPECT_FALSE(EncodeRow(state, {RowKind::kMember, 12345}).has_value());
  EXPECT_FALSE(EncodeRow(state, {RowKind::kEpoch, 1}).has_value());
  EXPECT_FALSE(EncodeRow(state, {RowKind::kGone, 6}).has_value()) << "forgotten";
  EXPECT_TRUE(EncodeRow(state, {RowKind::kGone, 7}).has_value());
  EXPECT_FALSE(EncodeRow(state, {RowKind::kCommitAck, (uint64_t{1} << 32) + 2}).has_value());
}

TEST(JobRowsTest, ARowInAnothersPlaceIsNamed) {
  const auto rows = RowsOf(SampleState());
  for (const auto& [key, value] : rows) {
    auto moved = rows;
    auto node = moved.extract(key);
    node.key() = key.substr(0, key.size() - 4) + "7777";
    moved.insert(std::move(node));
    const Status status = Merged(moved).status();
    EXPECT_EQ(status.code(), StatusCode::kCorruption) << key;
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr("row ")) << key;
  }
}

TEST(JobRowsTest, ATornRowIsNamed) {
  const auto rows = RowsOf(SampleState());
  for (const auto& [key, value] : rows) {
    auto torn = rows;
    torn[key].resize(value.size() / 2);
    const Status status = Merged(torn).status();
    EXPECT_EQ(status.code(), StatusCode::kCorruption) << key;
    EXPECT_THAT(std::string(status.message()), testing::StartsWith("row " + key));
  }
}

TEST(JobRowsTest, AMissingRowThatEveryStateHasIsNamed) {
  for (const std::string key : {"job", "placement", "times", "totals"}) {
    auto rows = RowsOf(SampleState());
    rows.erase(key + "/0000000000000000");
    const Status status = Merged(rows).status();
    EXPECT_EQ(status.code(), StatusCode::kCorruption);
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr("row " + key)) << status;
  }
}

TEST(JobRowsTest, SamplesInTwoPlacesAreFound) {
  JobState state = SampleState();
  state.ledger.leases[LeaseId(82)] = {LeaseId(82), Incarnation(3), 0, 38, 44, 38};
  EXPECT_EQ(Merged(RowsOf(state)).status().code(), StatusCode::kCorruption);
  state.ledger.leases[LeaseId(82)] = {LeaseId(82), Incarnation(3), 9, 0, 4, 0};
  const Status status = Merged(RowsOf(state)).status();
  EXPECT_EQ(status.code(), StatusCode::kCorruption);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("lease/0000000000000052"));
}

}  // namespace
}  // namespace ps::proto
