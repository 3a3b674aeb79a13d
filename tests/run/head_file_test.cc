#include "run/directory/head_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ps/base/durable_file.h"
#include "tests/base/temporary_folder.h"

namespace ps::run {
namespace {

TEST(HeadFileTest, ARunIsHereUnlessItsFileSaysWhere) {
  const TemporaryFolder folder;
  const RunPaths run = {folder.path()};
  EXPECT_FALSE(ReadHeadFile(run)->has_value());
  EXPECT_FALSE(IsElsewhere(run));
  HeadFile head;
  head.login = "admin@198.51.100.7";
  head.programs = "spotps/bin";
  head.from = "/runs/before/checkpoints";
  head.changes = {"train.epochs=3", R"(name="a b")"};
  head.is_trusted = true;
  head.is_begun = true;
  ASSERT_TRUE(WriteHeadFile(run, head).ok());
  EXPECT_EQ(**ReadHeadFile(run), head);
  EXPECT_TRUE(IsElsewhere(run));
  head.is_fetched = true;
  ASSERT_TRUE(WriteHeadFile(run, head).ok());
  EXPECT_TRUE(IsElsewhere(run)) << "its machine costs yet";
  head.is_given_back = true;
  head.usd = 1.25;
  ASSERT_TRUE(WriteHeadFile(run, head).ok());
  EXPECT_EQ(**ReadHeadFile(run), head);
  EXPECT_FALSE(IsElsewhere(run));
}

/// As psctl wrote it before runs could be resumed on another machine.
TEST(HeadFileTest, OneOfAnEarlierVersionIsRead) {
  const TemporaryFolder folder;
  const RunPaths run = {folder.path()};
  ASSERT_TRUE(WriteFileAtomically(
                  run.head(),
                  R"({"login": "admin@198.51.100.7", "programs": "spotps/bin", "is_started": true,)"
                  R"( "is_begun": true, "is_given_up": false, "is_fetched": true,)"
                  R"( "is_given_back": true, "usd": 1.25})")
                  .ok());
  const auto head = ReadHeadFile(run);
  ASSERT_TRUE(head.ok() && head->has_value()) << head.status();
  EXPECT_TRUE((*head)->is_fetched);
  EXPECT_EQ((*head)->from, "");
  EXPECT_THAT((*head)->changes, testing::IsEmpty());
}

/// Whoever removes such a run, or sweeps its machine, might lose what is there.
TEST(HeadFileTest, ADamagedFileIsOneOfARunElsewhere) {
  const TemporaryFolder folder;
  const RunPaths run = {folder.path()};
  for (const char* const text :
       {"", "{}", "[]", R"({"login": "a@b"})", R"({"login": 1, "programs": "p"})"}) {
    ASSERT_TRUE(WriteFileAtomically(run.head(), text).ok());
    const auto head = ReadHeadFile(run);
    EXPECT_FALSE(head.ok()) << text;
    EXPECT_THAT(std::string(head.status().message()), testing::HasSubstr("head.json"));
    EXPECT_TRUE(IsElsewhere(run));
  }
}

}  // namespace
}  // namespace ps::run
