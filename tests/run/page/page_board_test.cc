#include "run/page/page_board.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ps/base/file.h"
#include "tests/base/temporary_folder.h"
#include "tests/run/sample_status.h"

namespace ps::run {
namespace {

constexpr Duration kSecond = std::chrono::seconds(1);

/// Time that the test moves.
class HandClock final : public TimeSource {
 public:
  TimePoint Now() const override { return TimePoint(Duration(now_.load())); }

  int64_t UnixMicros() const override { return 0; }

  void Move(Duration by) { now_ += by.count(); }

 private:
  std::atomic<Duration::rep> now_ = Duration(std::chrono::hours(1)).count();
};

class PageBoardTest : public testing::Test {
 protected:
  PageBoard::Options Options() {
    PageBoard::Options options;
    options.time = &clock_;
    options.wait_max = Duration::zero();  // nobody waits, unless a test says so
    return options;
  }

  void PutUp(PageBoard* board, Duration cost = Duration::zero(), double loss = 0.5) {
    proto::JobStatus status = MakeStatus();
    status.train_loss = loss;
    board->PutUp(std::move(status), cost, clock_.Now());
  }

  HandClock clock_;
};

TEST_F(PageBoardTest, NothingIsMadeWhileNobodyLooks) {
  PageBoard board(Options());
  EXPECT_FALSE(board.IsWanted(clock_.Now()));
  clock_.Move(1000 * kSecond);
  EXPECT_FALSE(board.IsWanted(clock_.Now()));
  EXPECT_EQ(board.Look().look, nullptr);
  EXPECT_TRUE(board.IsWanted(clock_.Now()));
  PutUp(&board);
  EXPECT_FALSE(board.IsWanted(clock_.Now()));
  clock_.Move(1000 * kSecond);
  EXPECT_FALSE(board.IsWanted(clock_.Now()));
}

TEST_F(PageBoardTest, AThousandLooksInAMomentAreOne) {
  PageBoard board(Options());
  PutUp(&board);
  const std::shared_ptr<const PageLook> look = board.Look().look;
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(board.Look().look, look);
  }
  EXPECT_FALSE(board.IsWanted(clock_.Now() + 1000 * kSecond));
  clock_.Move(kSecond);
  EXPECT_EQ(board.Look().look, look);  // an old one is better than none
  EXPECT_EQ(board.Look().age_s, 1);
  EXPECT_TRUE(board.IsWanted(clock_.Now()));
}

TEST_F(PageBoardTest, StatusesThatCostMuchAreMadeTheLessOften) {
  PageBoard board(Options());
  const Duration cost = std::chrono::milliseconds(20);
  int made = 0;
  const TimePoint begin = clock_.Now();
  while (clock_.Now() - begin < 100 * kSecond) {
    board.Look();
    if (board.IsWanted(clock_.Now())) {
      clock_.Move(cost);
      PutUp(&board, cost);
      ++made;
    }
    clock_.Move(std::chrono::milliseconds(50));
  }
  EXPECT_LE(Seconds(made * cost), 0.01 * 100);
  EXPECT_GE(made, 20);
}

TEST_F(PageBoardTest, WhoLooksGetsANewOneWhenTheLoopMakesIt) {
  PageBoard::Options options = Options();
  options.wait_max = 30 * kSecond;
  options.time = &SystemTime();
  options.every_min = Duration::zero();
  PageBoard board(options);
  std::vector<std::thread> readers;
  std::atomic<int> seen = 0;
  for (int i = 0; i < 4; ++i) {
    readers.emplace_back([&] {
      const PageSource::Now now = board.Look();
      seen += now.look != nullptr && now.look->status().train_loss == 0.25 ? 1 : 0;
    });
  }
  while (seen < 4) {
    if (board.IsWanted(SystemTime().Now())) {
      proto::JobStatus status = MakeStatus();
      status.train_loss = 0.25;
      board.PutUp(std::move(status), Duration::zero(), SystemTime().Now());
    }
    std::this_thread::yield();
  }
  for (std::thread& reader : readers) {
    reader.join();
  }
}

TEST_F(PageBoardTest, TheEndLetsAllGo) {
  PageBoard::Options options = Options();
  options.wait_max = std::chrono::hours(1);
  options.time = &SystemTime();
  PageBoard board(options);
  std::thread reader([&] { EXPECT_EQ(board.Look().look, nullptr); });
  while (!board.IsWanted(SystemTime().Now())) {
    std::this_thread::yield();
  }
  board.End();
  reader.join();
}

TEST_F(PageBoardTest, EventsAreBounded) {
  PageBoard::Options options = Options();
  options.events_max = 10;
  PageBoard board(options);
  for (uint64_t i = 1; i <= 100; ++i) {
    proto::EventRow event;
    event.number = i;
    board.AddEvent(event);
  }
  EXPECT_EQ(board.EventsAfter(0).size(), 10U);
  EXPECT_EQ(board.EventsAfter(0).front().number, 91U);
  EXPECT_EQ(board.EventsAfter(98).size(), 2U);
  EXPECT_TRUE(board.EventsAfter(100).empty());
}

TEST_F(PageBoardTest, ThePastOfAnEarlierCoordinatorComesFirst) {
  const TemporaryFolder folder;
  const std::string path = folder / "metrics.jsonl";
  ASSERT_TRUE(
      WriteFileAtomically(path, "{\"time_unix_s\":1,\"train_loss\":2}\n{\"time_unix_s\":2}\n")
          .ok());
  PageBoard::Options options = Options();
  options.past = path;
  PageBoard board(options);
  HistoryPoint point;
  point.unix_s = 3;
  board.AddPoint(point);
  const std::string json = board.History(0, 0);
  const size_t rows = json.find("\"rows\":");
  EXPECT_NE(json.find("[1,0,null,2,", rows), std::string::npos) << json;
  EXPECT_LT(json.find("[1,0,", rows), json.find("[2,0,", rows));
  EXPECT_LT(json.find("[2,0,", rows), json.find("[3,0,", rows));
}

}  // namespace
}  // namespace ps::run
