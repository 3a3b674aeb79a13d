// `psctl checkpoint` on copies in a folder.

#include "psctl/runs/remote_copies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>

#include "checkpoint/job_store.h"
#include "checkpoint/remote/copies.h"
#include "checkpoint/remote/directory_store.h"
#include "checkpoint/storage/rocksdb_storage.h"
#include "run/directory/borrowed_job.h"
#include "run/directory/copies.h"
#include "tests/checkpoint/workload.h"
#include "tests/psctl/command_fixture.h"

namespace ps::psctl {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class RemoteCopiesTest : public CommandFixture {
 protected:
  RemoteCopiesTest() {
    Status end;
    checkpoint::RunWorkload(*storage_, path_, 2, &end);
    EXPECT_TRUE(end.ok()) << end;
  }

  void Copy() { ASSERT_EQ(Run({"checkpoint", "copy", place_, path_}), run::kExitOk) << err_; }

  const std::string path_ = root_ / "checkpoints";
  const std::string folder_ = root_ / "copies";
  const std::string place_ = "file://" + folder_;
  const std::unique_ptr<checkpoint::Storage> storage_ = checkpoint::MakeRocksDbStorage();
  const std::unique_ptr<store::ObjectStore> store_ = checkpoint::MakeDirectoryStore(folder_);
};

TEST_F(RemoteCopiesTest, OldOnesAreNotRemovedBesideACopier) {
  Copy();
  checkpoint::WriterMark mark(store_.get(), "host a, process 12");
  ASSERT_TRUE(mark.Take().ok());
  EXPECT_EQ(Run({"checkpoint", "prune", place_, "--keep", "1"}), run::kExitFailed);
  EXPECT_THAT(err_, HasSubstr("another process copies to " + folder_ + " now"));
  EXPECT_THAT(err_, HasSubstr("(host a, process 12)"));
  EXPECT_TRUE(mark.Check().ok());
  EXPECT_EQ(Run({"checkpoint", "prune", place_, "--keep", "1", "--force"}), run::kExitOk) << err_;
  EXPECT_EQ(out_, "removed: 1\nkept: 2\n");
  EXPECT_FALSE(mark.Check().ok()) << "the copier stops, if it still is there";
  EXPECT_EQ(Run({"checkpoint", "prune", place_, "--keep", "1"}), run::kExitOk) << err_;
}

TEST_F(RemoteCopiesTest, ACopyThatLacksAPieceIsNotListedAsOne) {
  Copy();
  EXPECT_EQ(Run({"checkpoint", "list", place_}), run::kExitOk);
  EXPECT_THAT(err_, Not(HasSubstr("not whole")));
  const auto pieces = checkpoint::ListPieces(*store_);
  ASSERT_TRUE(pieces.ok() && !pieces->empty());
  std::filesystem::remove(folder_ + "/" + pieces->begin()->first);
  EXPECT_EQ(Run({"checkpoint", "list", place_}), run::kExitOk);
  EXPECT_THAT(err_, HasSubstr("no checkpoint"));
  EXPECT_THAT(err_, HasSubstr("checkpoint 2 is not whole in " + folder_ + ": 1 of its "));
  Copy();
  EXPECT_EQ(Run({"checkpoint", "list", place_}), run::kExitOk) << err_;
}

TEST_F(RemoteCopiesTest, WhatWasFetchedSaysFromWhereAndSoDoItsCopies) {
  Copy();
  const std::string fetched = root_ / "fetched";
  const std::string copied = root_ / "copied";
  ASSERT_EQ(Run({"checkpoint", "copy", fetched, place_}), run::kExitOk) << err_;
  ASSERT_EQ(Run({"checkpoint", "copy", copied, fetched}), run::kExitOk) << err_;
  for (const std::string& path : {fetched, copied}) {
    const auto job = checkpoint::JobStore::Open(*storage_, path, checkpoint::OpenMode::kRead);
    ASSERT_TRUE(job.ok()) << job.status();
    EXPECT_THAT(*run::OriginOf(**job, 2), HasSubstr(folder_));
    EXPECT_THAT(*run::OriginOf(**job, 3), IsEmpty());
  }
}

TEST_F(RemoteCopiesTest, TryingAPlaceLeavesNothingThere) {
  EXPECT_TRUE(run::CheckCopyTarget(place_).ok());
  EXPECT_THAT(*store_->List(""), IsEmpty());
  Copy();
  const Status taken = run::CheckCopyTarget(place_);
  EXPECT_EQ(taken.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(taken.message()), HasSubstr("has checkpoints already"));
}

}  // namespace
}  // namespace ps::psctl
