// A place of copies that several processes change: who has it, what stops the others, and that a
// copy counts only when the place lists all of it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/remote/copier.h"
#include "tests/checkpoint/remote/copy_fixture.h"

namespace ps::checkpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class PlaceTest : public CopyTest {
 protected:
  Result<std::vector<CheckpointId>> Prune(size_t keep) {
    WriterMark mark(&store_, "pruner");
    PS_TRY(mark.Take());
    auto removed = PruneCopies(store_, keep, mark);
    mark.Leave();
    return removed;
  }

  /// Does `act` once, before the first change of an object whose key begins so.
  void Before(const std::string& key_begin, std::function<void()> act) {
    store_.OnChange(
        [key_begin, act = std::move(act), is_done = false](std::string_view key) mutable {
          if (!is_done && key.starts_with(key_begin)) {
            is_done = true;
            act();
          }
        });
  }

  /// Three copies, of which the newest has lost a piece.
  void LoseAPiece() {
    ASSERT_TRUE(Upload().ok());
    Train(1);
    ASSERT_TRUE(Upload().ok());
    ASSERT_EQ(store_.objects().erase(PieceOnlyOf(3, 2)), 1U);
  }

  CopyList Listed() { return *ListWholeCopies(store_); }
};

TEST_F(PlaceTest, NothingGoesWhenAKeptIndexCannotBeRead) {
  ASSERT_TRUE(Upload().ok());
  store_.objects()[IndexKey(2)].back() ^= std::byte{1};
  const size_t objects = store_.objects().size();
  EXPECT_EQ(Prune(1).status().code(), StatusCode::kCorruption);
  EXPECT_EQ(store_.objects().size(), objects);
}

TEST_F(PlaceTest, AnUploaderThatIsReplacedStopsAndCommitsNothing) {
  Before("data/", [&] { ASSERT_TRUE(WriterMark(&store_, "newer").Take().ok()); });
  const Status replaced = Upload().status();
  EXPECT_EQ(replaced.code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(replaced.message()), HasSubstr("another process copies to memory now"));
  EXPECT_THAT(Copies(), IsEmpty());
  EXPECT_EQ(*ReadWriter(store_), "newer") << "the older one does not leave it for the newer";
}

TEST_F(PlaceTest, NobodyHasAPlaceAfterACopyOrAFailure) {
  Uploader uploader(path_, &store_, {.writer = "test", .keep = 0, .on_progress = nullptr});
  ASSERT_TRUE(uploader.Run().ok());
  EXPECT_EQ(*ReadWriter(store_), std::nullopt);
  Train(1);
  Before("checkpoints/", [&] { store_.FailAfter(0); });
  EXPECT_FALSE(uploader.Run().ok());
  store_.Heal();
  EXPECT_EQ(*ReadWriter(store_), "test") << "it could not be left";
  ASSERT_TRUE(uploader.Run().ok());
  EXPECT_EQ(*ReadWriter(store_), std::nullopt);
}

TEST_F(PlaceTest, ANameThatAnOlderVersionLeftIsNobody) {
  store_.objects()[std::string(kWriterKey)] = {std::byte{'x'}};
  EXPECT_EQ(*ReadWriter(store_), std::nullopt);
}

TEST_F(PlaceTest, AnUploaderThatIsReplacedDeletesNoPieceOfTheNewOne) {
  ASSERT_TRUE(Upload().ok());
  Train(2);
  // It is about to delete its first old index when another one takes over and copies what is new.
  const std::string key = "data/" + std::string(64, 'a');
  Before(IndexKey(1), [&] {
    ASSERT_TRUE(WriterMark(&store_, "newer").Take().ok());
    store_.objects()[key] = {std::byte{1}};
  });
  const std::set<std::string> old = PiecesOf(1);
  EXPECT_EQ(Upload(1).status().code(), StatusCode::kUnavailable);
  EXPECT_TRUE(store_.objects().contains(key));
  for (const std::string& piece : old) {
    EXPECT_TRUE(store_.objects().contains(piece)) << "it went on after it was replaced";
  }
}

TEST_F(PlaceTest, APieceThatGoesDuringACopyIsNotTakenForCopied) {
  // As a process does that was stopped between its look at the mark and the deletion.
  Before(IndexKey(2), [&] { store_.objects().erase(store_.objects().lower_bound("data/")); });
  const Status lost = Upload().status();
  EXPECT_EQ(lost.code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(lost.message()), HasSubstr("does not list 1 piece of checkpoint"));
  const auto again = Upload();
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_THAT(Listed().whole, ElementsAre(1, 2));
}

TEST_F(PlaceTest, ACopyThatLostAPieceLaterCountsForNothingAndIsMadeAgain) {
  LoseAPiece();
  EXPECT_THAT(Listed().whole, ElementsAre(1, 2));
  ASSERT_THAT(Listed().incomplete, SizeIs(1));
  EXPECT_EQ(Listed().incomplete[0].id, 3U);
  EXPECT_THAT(Listed().incomplete[0].why, HasSubstr("1 of its "));
  const auto again = Upload();
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_THAT(again->copied, ElementsAre(3));
  EXPECT_THAT(again->present, ElementsAre(1, 2));
  EXPECT_THAT(Listed().whole, ElementsAre(1, 2, 3));
  EXPECT_THAT(VerifyCopy(store_, 3), IsEmpty());
}

TEST_F(PlaceTest, APathThatWasFetchedWithoutABrokenCopyIsNotBehindIt) {
  LoseAPiece();
  ASSERT_EQ(Fetch("q")->id, 2U);
  const auto copied = UploadFrom(PathOf("q"));
  ASSERT_TRUE(copied.ok()) << copied.status();
  EXPECT_THAT(copied->copied, IsEmpty());
}

TEST_F(PlaceTest, ACopyThatIsNotWholeDoesNotCountAsKept) {
  LoseAPiece();
  const auto removed = Prune(1);
  ASSERT_TRUE(removed.ok()) << removed.status();
  EXPECT_THAT(*removed, ElementsAre(1));
  EXPECT_THAT(VerifyCopy(store_, 2), IsEmpty()) << "the newest whole one stays";
}

/// A place that several processes reach. `is_forgetful`: it lists nothing, as servers do that take
/// a name for another one.
class SharedStore final : public store::ObjectStore {
 public:
  explicit SharedStore(MemoryStore* inner, bool is_forgetful = false)
      : inner_(inner), is_forgetful_(is_forgetful) {}

  std::string name() const override { return inner_->name(); }

  Status Put(std::string_view key, std::span<const std::byte> bytes) override {
    return inner_->Put(key, bytes);
  }

  Result<std::vector<std::byte>> Get(std::string_view key, size_t bytes_max) override {
    return inner_->Get(key, bytes_max);
  }

  Result<std::vector<store::ObjectInfo>> List(std::string_view prefix) override {
    return is_forgetful_ ? std::vector<store::ObjectInfo>() : inner_->List(prefix);
  }

  Status Delete(std::string_view key) override { return inner_->Delete(key); }

 private:
  MemoryStore* const inner_;
  const bool is_forgetful_;
};

TEST_F(PlaceTest, ACopyThatIsNotListedIsNotMade) {
  SharedStore store(&store_, true);
  Uploader uploader(path_, &store, {.writer = "test", .keep = 0, .on_progress = nullptr});
  const Status copied = uploader.Run().status();
  EXPECT_EQ(copied.code(), StatusCode::kIo);
  EXPECT_THAT(std::string(copied.message()), HasSubstr("does not list it"));
}

TEST_F(PlaceTest, ACopierThatIsReplacedBeginsAnew) {
  Before("data/", [&] {
    WriterMark other(&store_, "by hand");
    ASSERT_TRUE(other.Take().ok());
    other.Leave();
  });
  CopyState state;
  {
    std::promise<void> is_done;
    Copier copier(
        {.path = path_,
         .writer = "test",
         .keep = 1,
         .open = [&](store::Pause, IsCancelled) -> Result<std::unique_ptr<store::ObjectStore>> {
           return std::unique_ptr<store::ObjectStore>(std::make_unique<SharedStore>(&store_));
         },
         .retry_wait = Duration::zero(),
         .told =
             [&](const CopyState& told) {
               state = told;
               is_done.set_value();
             }});
    copier.Poke();
    is_done.get_future().wait();
  }
  EXPECT_EQ(state.failed, 0U) << state.trouble;
  EXPECT_EQ(state.newest, 2U);
  EXPECT_THAT(Listed().whole, ElementsAre(2));
}

}  // namespace
}  // namespace ps::checkpoint
