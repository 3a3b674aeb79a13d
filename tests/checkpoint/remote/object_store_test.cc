// The suite of ObjectStore: a directory, memory, a small S3 of these tests, and moto's.

#include "ps/store/object_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "checkpoint/remote/directory_store.h"
#include "tests/base/sync_record.h"
#include "tests/checkpoint/remote/memory_store.h"
#include "tests/checkpoint/temporary_path.h"
#include "tests/store/s3_under_test.h"

namespace ps::checkpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::byte> Bytes(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

class ObjectStoreTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == "directory") {
      store_ = MakeDirectoryStore(folder_.path() + "/not/there/yet");
    } else if (GetParam() == "memory") {
      store_ = std::make_unique<MemoryStore>();
    } else {
      const store::S3Server& server =
          GetParam() == "moto" ? store::MotoServer() : store::TestServer();
      if (server.port() == 0) {
        GTEST_SKIP() << server.why() << "; scripts/setup.sh --tests installs it";
      }
      const std::string bucket = GetParam() == "moto" ? "bucket" : "good";
      const std::string own = testing::UnitTest::GetInstance()->current_test_info()->name();
      store_ = server.Open(bucket, "a prefix/" + own);
    }
  }

  TemporaryPath folder_;
  std::unique_ptr<store::ObjectStore> store_;
};

TEST_P(ObjectStoreTest, WhatWasPutIsReadWhole) {
  const std::vector<std::byte> bytes = Bytes("two words");
  ASSERT_TRUE(store_->Put("data/ab12", bytes).ok());
  const auto read = store_->Get("data/ab12");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, bytes);
}

/// After a power failure an object is there if it was synced, and each folder with a new name, too.
TEST(DirectoryStoreTest, APutIsSyncedAndSoIsEveryFolderWithANewName) {
  const TemporaryPath folder;
  const std::unique_ptr<store::ObjectStore> store = MakeDirectoryStore(folder.path() + "/new");
  ForgetSynced();
  ASSERT_TRUE(store->Put("data/ab12", Bytes("two words")).ok());
  const std::vector<std::string> synced = Synced();
  EXPECT_THAT(synced, ::testing::Contains(::testing::StartsWith(folder.path() + "/new/data/ab12")));
  for (const std::string path : {"", "/new", "/new/data"}) {
    EXPECT_THAT(synced, ::testing::Contains(folder.path() + path));
  }
  EXPECT_EQ(synced.back(), folder.path() + "/new/data") << "once the object has its name";
}

TEST_P(ObjectStoreTest, AnEmptyObjectIsAnObject) {
  ASSERT_TRUE(store_->Put("empty", {}).ok());
  const auto read = store_->Get("empty");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_THAT(*read, IsEmpty());
  EXPECT_THAT(*store_->List(""), ElementsAre(store::ObjectInfo{.key = "empty", .bytes = 0}));
}

TEST_P(ObjectStoreTest, AnObjectOfMegabytesIsReadWhole) {
  std::vector<std::byte> bytes(3'000'001);
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>(i * 31 >> 8);
  }
  const Status put = store_->Put("data/large", bytes);
  ASSERT_TRUE(put.ok()) << put;
  const auto read = store_->Get("data/large");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(*read == bytes);
}

TEST_P(ObjectStoreTest, ASecondPutReplaces) {
  ASSERT_TRUE(store_->Put("one", Bytes("older and longer")).ok());
  ASSERT_TRUE(store_->Put("one", Bytes("newer")).ok());
  EXPECT_EQ(*store_->Get("one"), Bytes("newer"));
}

TEST_P(ObjectStoreTest, WhatIsNotThereIsNotFound) {
  EXPECT_EQ(store_->Get("none").status().code(), StatusCode::kNotFound);
  EXPECT_THAT(*store_->List("data/"), IsEmpty());
}

TEST_P(ObjectStoreTest, MoreThanIsWantedIsCorruption) {
  ASSERT_TRUE(store_->Put("one", std::vector<std::byte>(100'000)).ok());
  EXPECT_EQ(store_->Get("one", 99'999).status().code(), StatusCode::kCorruption);
  EXPECT_TRUE(store_->Get("one", 100'000).ok());
}

TEST_P(ObjectStoreTest, ListsAreByKeyAndByPrefix) {
  for (const char* const key : {"b/2", "a/1", "b/10", "b/1", "bb/1", "top"}) {
    ASSERT_TRUE(store_->Put(key, Bytes(key)).ok());
  }
  EXPECT_THAT(
      *store_->List("b/"),
      ElementsAre(
          store::ObjectInfo{"b/1", 3}, store::ObjectInfo{"b/10", 4}, store::ObjectInfo{"b/2", 3}));
  EXPECT_EQ(store_->List("")->size(), 6U);
}

TEST_P(ObjectStoreTest, ListsOfManyPagesAreWhole) {
  for (int i = 10; i < 30; ++i) {
    ASSERT_TRUE(store_->Put("many/" + std::to_string(i), {}).ok());
  }
  const auto listed = store_->List("many/");
  ASSERT_TRUE(listed.ok()) << listed.status();
  ASSERT_EQ(listed->size(), 20U);
  EXPECT_EQ(listed->front().key, "many/10");
  EXPECT_EQ(listed->back().key, "many/29");
}

TEST_P(ObjectStoreTest, WhatIsDeletedIsGoneAndMayBeDeletedAgain) {
  ASSERT_TRUE(store_->Put("a/1", Bytes("x")).ok());
  ASSERT_TRUE(store_->Delete("a/1").ok());
  EXPECT_EQ(store_->Get("a/1").status().code(), StatusCode::kNotFound);
  EXPECT_THAT(*store_->List("a/"), IsEmpty());
  EXPECT_TRUE(store_->Delete("a/1").ok());
}

TEST_P(ObjectStoreTest, NamesThatLeadElsewhereAreRefused) {
  for (const char* const key : {"", "/a", "a/", "a//b", "../a", "a/../b", "A", "a b", "a.part"}) {
    EXPECT_EQ(store_->Put(key, {}).code(), StatusCode::kInvalidArgument) << key;
    EXPECT_EQ(store_->Get(key).status().code(), StatusCode::kInvalidArgument) << key;
    EXPECT_EQ(store_->Delete(key).code(), StatusCode::kInvalidArgument) << key;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Stores,
    ObjectStoreTest,
    testing::Values("directory", "memory", "s3", "moto"),
    [](const auto& kind) { return kind.param; });

}  // namespace
}  // namespace ps::checkpoint
