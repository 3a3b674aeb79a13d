// Objects of others, whole and in parts, against object_server.py.

#include "ps/store/object_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/store/s3_under_test.h"

namespace ps::store {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kText = "0123456789abcdefghij";

std::string TextIn(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class ObjectReaderTest : public testing::Test {
 protected:
  void SetUp() override {
    if (TestServer().port() == 0) {
      GTEST_SKIP() << "no server: " << TestServer().why() << "; is python3 installed?";
    }
  }

  static std::string Own(const std::string& name) {
    return std::string(testing::UnitTest::GetInstance()->current_test_info()->name()) + "/" + name;
  }

  static void Put(const std::string& bucket, const std::string& name, std::string_view text) {
    const Status put = TestServer().Put(bucket, Own(name), text);
    ASSERT_TRUE(put.ok()) << put;
  }

  static ObjectReader Open(const std::string& bucket, const std::string& secret = "") {
    std::map<std::string, std::string> variables;
    for (const auto& [name, value] : TestServer().KeyVariables()) {
      variables[name] = value;
    }
    if (!secret.empty()) {
      variables["AWS_SECRET_ACCESS_KEY"] = secret;
    }
    const std::string place = TestServer().PlaceOf(bucket, Own(""));
    const Result<S3Access> access =
        FindS3Access(place, [variables](const std::string& name) -> std::optional<std::string> {
          const auto it = variables.find(name);
          return it == variables.end() ? std::nullopt : std::optional(it->second);
        });
    EXPECT_TRUE(access.ok()) << access.status();
    S3Options options;
    options.attempts_max = 3;
    options.pause = [](Duration) { return true; };
    return {*access, HttpLimits(), nullptr, std::move(options)};
  }

  static Result<std::vector<StoredObject>> ListAll(ObjectReader reader) {
    return reader.List(100, [](std::string_view) { return true; });
  }

  static StoredObject Only(const std::string& bucket) {
    const auto objects = ListAll(Open(bucket));
    EXPECT_TRUE(objects.ok()) << objects.status();
    return objects->at(0);
  }
};

TEST_F(ObjectReaderTest, EveryNameIsListedAndReadAgain) {
  const std::vector<std::string> names = {
      "a b.csv",
      "a%20b.csv",
      "a+b.csv",
      "deep/er/x.png",
      "it's&<\"q\">.txt",
      "z\xc3\xa9.csv",
      "~.csv",
      "one",
      "two"};
  for (const std::string& name : names) {
    Put("good", name, name);
  }
  Put("good", "folder/", "");
  ObjectReader reader = Open("good");
  const auto objects = reader.List(100, [](std::string_view) { return true; });
  ASSERT_TRUE(objects.ok()) << objects.status();
  std::vector<std::string> listed;
  for (const StoredObject& object : *objects) {
    listed.push_back(object.name);
    const auto read = reader.Read(object, 0, object.bytes);
    ASSERT_TRUE(read.ok()) << object.name << ": " << read.status();
    EXPECT_EQ(TextIn(*read), object.name);
  }
  EXPECT_THAT(listed, testing::UnorderedElementsAreArray(names));
  EXPECT_TRUE(std::is_sorted(listed.begin(), listed.end()));
}

TEST_F(ObjectReaderTest, APartIsThatPart) {
  Put("good", "x", kText);
  const StoredObject object = Only("good");
  EXPECT_EQ(object.bytes, kText.size());
  EXPECT_EQ(object.etag.size(), 32U);
  EXPECT_EQ(TextIn(Open("good").Read(object, 3, 5).value()), "34567");
  EXPECT_EQ(TextIn(Open("good").Read(object, 19, 1).value()), "j");
}

TEST_F(ObjectReaderTest, AnObjectThatWasChangedOrRemovedIsNotRead) {
  Put("good", "x", kText);
  const StoredObject object = Only("good");
  Put("good", "x", "0123456789ABCDEFGHIJ");
  const Status changed = Open("good").Read(object, 3, 5).status();
  EXPECT_EQ(changed.code(), StatusCode::kStale);
  EXPECT_THAT(std::string(changed.message()), HasSubstr("reading x: it is another one now"));
  EXPECT_EQ(Open("good").Read(object, 0, kText.size()).status().code(), StatusCode::kStale);
  StoredObject other = object;
  other.name = "y";
  EXPECT_EQ(Open("good").Read(other, 0, 5).status().code(), StatusCode::kNotFound);
}

TEST_F(ObjectReaderTest, WithoutTagsTheSizeTells) {
  Put("untagged", "x", kText);
  const StoredObject object = Only("untagged");
  EXPECT_EQ(object.etag, "");
  Put("untagged", "x", kText + "k");
  EXPECT_EQ(Open("untagged").Read(object, 3, 5).status().code(), StatusCode::kStale);
  EXPECT_EQ(Open("untagged").Read(object, 0, kText.size()).status().code(), StatusCode::kStale);
}

TEST_F(ObjectReaderTest, AStoreThatGivesNoPartsIsCalledOne) {
  Put("whole", "x", kText);
  const Status read = Open("whole").Read(Only("whole"), 3, kText.size() - 3).status();
  EXPECT_EQ(read.code(), StatusCode::kUnsupported);
  EXPECT_THAT(std::string(read.message()), HasSubstr("gives no parts of objects"));
}

TEST_F(ObjectReaderTest, WhatBreaksIsReadAgain) {
  for (const std::string bucket : {"busy", "truncating", "dropping"}) {
    Put(bucket, "x", kText);
    const StoredObject object = Only(bucket);
    EXPECT_EQ(TextIn(Open(bucket).Read(object, 3, 5).value()), "34567") << bucket;
    EXPECT_EQ(TextIn(Open(bucket).Read(object, 0, kText.size()).value()), kText) << bucket;
  }
}

TEST_F(ObjectReaderTest, TooManyObjectsAreAnError) {
  for (int i = 0; i < 9; ++i) {
    Put("good", std::to_string(i), kText);
  }
  ObjectReader reader = Open("good");
  const auto is_any = [](std::string_view) { return true; };
  EXPECT_EQ(reader.List(9, is_any)->size(), 9U);
  const Status listed = reader.List(8, is_any).status();
  EXPECT_EQ(listed.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(listed.message()), HasSubstr("more than 8 objects that could be data"));
  EXPECT_EQ(reader.List(1, [](std::string_view name) { return name == "3"; })->size(), 1U);
}

TEST_F(ObjectReaderTest, RefusalsSayWhatReadingNeeds) {
  const Status denied = ListAll(Open("denying")).status();
  EXPECT_EQ(denied.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(
      std::string(denied.message()),
      AllOf(HasSubstr("it needs s3:ListBucket and s3:GetObject on"), Not(HasSubstr("Put"))));
  EXPECT_THAT(
      ListAll(Open("good", "wrong")).status().ToString(),
      HasSubstr("the secret of the access key"));
  EXPECT_THAT(ListAll(Open("moved")).status().ToString(), HasSubstr("is in region us-west-9"));
  EXPECT_THAT(ListAll(Open("none-such")).status().ToString(), HasSubstr("there is no bucket"));
}

}  // namespace
}  // namespace ps::store
