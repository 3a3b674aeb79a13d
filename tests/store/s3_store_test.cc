// What a store of S3 does about each kind of trouble, against object_server.py.

#include "ps/store/s3_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ps/store/s3_reply.h"
#include "tests/store/s3_under_test.h"

namespace ps::store {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Le;
using ::testing::Not;
using ::testing::SizeIs;

const std::vector<std::byte> kSomeBytes(5000, std::byte{42});

class S3StoreTest : public testing::Test {
 protected:
  void SetUp() override {
    if (TestServer().port() == 0) {
      GTEST_SKIP() << "no server: " << TestServer().why() << "; is python3 installed?";
    }
  }

  /// Remembers the waits and takes no time.
  Pause CountPauses() {
    return [this](Duration wait) {
      waits_.push_back(Seconds(wait));
      return true;
    };
  }

  std::unique_ptr<ObjectStore> Open(const std::string& bucket, S3Variation variation = {}) {
    variation.pause = CountPauses();
    const std::string own = testing::UnitTest::GetInstance()->current_test_info()->name();
    return TestServer().Open(bucket, own, std::move(variation));
  }

  std::vector<double> waits_;
};

TEST_F(S3StoreTest, ABucketMayBeInTheNameOfTheHost) {
  S3Variation variation;
  variation.is_path_style = false;
  const auto store = Open("good", std::move(variation));
  const Status put = store->Put("one", kSomeBytes);
  ASSERT_TRUE(put.ok()) << put;
  EXPECT_EQ(*Open("good")->Get("one"), kSomeBytes);
}

TEST_F(S3StoreTest, ABusyServerIsAskedAgainAfterLongerAndLongerWaits) {
  const Status put = Open("busy")->Put("one", kSomeBytes);
  ASSERT_TRUE(put.ok()) << put;
  EXPECT_THAT(waits_, ElementsAre(AllOf(Ge(0.18), Le(0.32)), AllOf(Ge(0.37), Le(0.63))));
}

TEST_F(S3StoreTest, AServerThatKeepsFailingIsGivenUp) {
  const Status put = Open("failing")->Put("one", kSomeBytes);
  EXPECT_EQ(put.code(), StatusCode::kUnavailable);
  EXPECT_THAT(waits_, SizeIs(3));
  EXPECT_THAT(
      std::string(put.message()),
      HasSubstr("writing one: the object store has trouble: HTTP 500 InternalError"));
  EXPECT_THAT(std::string(put.message()), HasSubstr("(4 attempts)"));
}

TEST_F(S3StoreTest, ARefusalIsNotTriedAgainAndSaysWhatIsNeeded) {
  const Status put = Open("denying")->Put("one", kSomeBytes);
  EXPECT_EQ(put.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(waits_, SizeIs(0));
  EXPECT_THAT(std::string(put.message()), HasSubstr("s3:PutObject"));
  EXPECT_THAT(std::string(put.message()), HasSubstr("the access key AKIDTEST from the test"));
}

TEST_F(S3StoreTest, AWrongSecretIsCalledOneAndNotShown) {
  S3Variation variation;
  variation.secret = "hidden-words";
  const Status put = Open("good", std::move(variation))->Put("one", kSomeBytes);
  EXPECT_EQ(put.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(put.message()), HasSubstr("the secret of the access key AKIDTEST"));
  EXPECT_THAT(std::string(put.message()), Not(HasSubstr("hidden-words")));
}

TEST_F(S3StoreTest, AnUnknownKeyIsCalledOne) {
  S3Variation variation;
  variation.id = "AKIDOTHERONE";
  const Status put = Open("good", std::move(variation))->Put("one", kSomeBytes);
  EXPECT_EQ(put.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(put.message()), HasSubstr("AKIDOTHE... from the test is not known"));
}

/// What the server calls its key, with another session token.
aws::Credentials KeysWith(const std::string& token) {
  return {.key = TestServer().key(), .session_token = token, .source = "the test"};
}

TEST_F(S3StoreTest, KeysThatAreRefusedAreLookedForAgain) {
  std::vector<std::string> tokens = {"second"};
  S3Variation variation;
  variation.session_token = "first";
  variation.find_again = [&]() -> Result<aws::Credentials> {
    const aws::Credentials found = KeysWith(tokens.back());
    tokens.pop_back();
    return found;
  };
  const auto store = Open("rotated", std::move(variation));
  const Status put = store->Put("one", kSomeBytes);
  ASSERT_TRUE(put.ok()) << put;
  EXPECT_EQ(*store->Get("one"), kSomeBytes);
  EXPECT_THAT(waits_, SizeIs(0));
  EXPECT_THAT(tokens, SizeIs(0)) << "once";
}

TEST_F(S3StoreTest, AnUnknownKeyIsLookedForAgainToo) {
  S3Variation variation;
  variation.id = "AKIDOTHERONE";
  variation.find_again = [] { return KeysWith(""); };
  const Status put = Open("good", std::move(variation))->Put("one", kSomeBytes);
  EXPECT_TRUE(put.ok()) << put;
}

TEST_F(S3StoreTest, WhereThereIsNoOtherKeyTheRefusalIsSaid) {
  int asked = 0;
  S3Variation variation;
  variation.session_token = "first";
  variation.find_again = [&] {
    ++asked;
    return KeysWith("first");
  };
  const Status put = Open("rotated", std::move(variation))->Put("one", kSomeBytes);
  EXPECT_EQ(put.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(put.message()), HasSubstr("has expired; get a new one: HTTP 400"));
  EXPECT_EQ(asked, 1);
  S3Variation failing;
  failing.find_again = [] { return Status::Unavailable("the service is away"); };
  const Status lost = Open("rotated", std::move(failing))->Put("one", kSomeBytes);
  EXPECT_EQ(lost.code(), StatusCode::kUnavailable);
  EXPECT_THAT(
      std::string(lost.message()), HasSubstr("looking for another access key: the service is"));
}

TEST_F(S3StoreTest, ABucketWithObjectLockTakesUploads) {
  const auto store = Open("locked");
  const Status put = store->Put("one", kSomeBytes);
  ASSERT_TRUE(put.ok()) << put;
  EXPECT_EQ(*store->Get("one"), kSomeBytes);
}

/// A name passes through curl, the signature, the server's URL, its XML and our parsers.
TEST_F(S3StoreTest, EveryPrefixIsFoundAgain) {
  const std::string prefixes[] = {
      "plain",      "a b",       "a+b",         "a%2Bb",       "a%41", "%",   "a&b=c",
      "a&amp;b",    "&#43;",     "it's",        "\"q\"",       "<a>",  "a#b", "a;b:c@d,e$f!",
      "(a)*{b}[c]", "a\\b|c^d`", "~x_y.z",      "a//b",        "...",  ".a",  "a.",
      "$(reboot)",  "-r",        "caf\xc3\xa9", "\xe6\x97\xa5"};
  for (const std::string bucket : {"good", "plain"}) {
    for (const std::string& prefix : prefixes) {
      const auto store = TestServer().Open(bucket, prefix);
      const Status put = store->Put("data/ab12", kSomeBytes);
      ASSERT_TRUE(put.ok()) << bucket << " " << prefix << ": " << put;
      const auto listed = store->List("data/");
      ASSERT_TRUE(listed.ok()) << bucket << " " << prefix << ": " << listed.status();
      EXPECT_THAT(*listed, ElementsAre(ObjectInfo{"data/ab12", kSomeBytes.size()}))
          << bucket << " " << prefix;
    }
  }
}

TEST_F(S3StoreTest, AMissingBucketIsNoMissingObject) {
  const Status put = Open("no-such-bucket")->Get("one").status();
  EXPECT_EQ(put.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(put.message()), HasSubstr("there is no bucket no-such-bucket"));
}

TEST_F(S3StoreTest, ABucketOfAnotherRegionSaysWhichOne) {
  const Status got = Open("moved")->Get("one").status();
  EXPECT_EQ(got.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(got.message()), HasSubstr("set AWS_REGION=us-west-9"));
}

TEST_F(S3StoreTest, ATransferThatBreaksIsDoneAgain) {
  const auto store = Open("dropping");
  const Status put = store->Put("one", kSomeBytes);
  ASSERT_TRUE(put.ok()) << put;
  EXPECT_EQ(*store->Get("one"), kSomeBytes);
  EXPECT_THAT(waits_, SizeIs(2));
}

TEST_F(S3StoreTest, AnAnswerThatIsCutOffIsNotTakenForTheObject) {
  const auto store = Open("truncating");
  ASSERT_TRUE(store->Put("one", kSomeBytes).ok());
  EXPECT_EQ(*store->Get("one"), kSomeBytes);
  EXPECT_THAT(waits_, SizeIs(1));
}

TEST_F(S3StoreTest, AnUploadThatArrivesDamagedIsSentAgain) {
  const auto store = Open("garbling");
  const Status put = store->Put("one", kSomeBytes);
  ASSERT_TRUE(put.ok()) << put;
  EXPECT_EQ(*store->Get("one"), kSomeBytes);
  EXPECT_THAT(waits_, SizeIs(1));
}

TEST_F(S3StoreTest, AServerThatIsSilentIsADeadline) {
  S3Variation variation;
  variation.limits.total = std::chrono::milliseconds(100);
  variation.attempts_max = 2;
  const Status got = Open("silent", std::move(variation))->Get("one").status();
  EXPECT_EQ(got.code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(waits_, SizeIs(1));
}

TEST_F(S3StoreTest, ASlowDripIsADeadlineToo) {
  S3Variation variation;
  variation.limits.slow_time = std::chrono::seconds(1);
  variation.attempts_max = 1;
  const auto store = Open("dripping", std::move(variation));
  ASSERT_TRUE(store->Put("one", kSomeBytes).ok());
  const Status got = store->Get("one").status();
  EXPECT_EQ(got.code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(got.message()), HasSubstr("too slow. Less than 1024 bytes/sec"));
}

TEST_F(S3StoreTest, AnAnswerThatIsNoListIsCorruption) {
  EXPECT_EQ(Open("babbling")->List("").status().code(), StatusCode::kCorruption);
}

TEST_F(S3StoreTest, AWaitMayBeCancelledAndSoMayATransfer) {
  S3Variation variation;
  variation.pause = [](Duration) { return false; };
  const auto store = TestServer().Open("failing", "x", std::move(variation));
  EXPECT_EQ(store->Put("one", kSomeBytes).code(), StatusCode::kCancelled);
  S3Variation cancelled;
  cancelled.is_cancelled = [] { return true; };
  EXPECT_EQ(
      Open("silent", std::move(cancelled))->Get("one").status().code(), StatusCode::kCancelled);
}

TEST_F(S3StoreTest, WhereNobodyListensThereIsASentence) {
  S3Location location = *ParseS3Location("s3://bucket/p?endpoint=http://127.0.0.1:1");
  S3Options options;
  options.attempts_max = 1;
  const auto store = MakeS3Store(location, {}, MakeHttpClient({}, nullptr), options);
  const Status put = store->Put("one", kSomeBytes);
  EXPECT_EQ(put.code(), StatusCode::kUnavailable);
  EXPECT_THAT(
      std::string(put.message()), HasSubstr("s3://bucket/p: writing one: Failed to connect"));
}

std::span<const std::byte> BytesOf(std::string_view text) {
  return std::as_bytes(std::span(text));
}

TEST(S3ReplyTest, PagesAreRead) {
  const auto page = ParseS3Page(BytesOf(
      "<?xml version=\"1.0\"?>\n<ListBucketResult xmlns=\"http://s3\"><IsTruncated>true"
      "</IsTruncated><NextContinuationToken>a&amp;b</NextContinuationToken><Contents><Key>p/x%20y"
      "</Key><Size>12</Size></Contents><Contents><Size>0</Size><Key>p/z</Key></Contents>"
      "</ListBucketResult>"));
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_THAT(page->objects, ElementsAre(S3Object{"p/x%20y", 12}, S3Object{"p/z", 0}));
  EXPECT_EQ(page->next, "a&b");
}

TEST(S3ReplyTest, EntitiesAreCharacters) {
  const std::pair<std::string, std::string> cases[] = {
      {"a&amp;b", "a&b"},
      {"&lt;&gt;&quot;&apos;", "<>\"'"},
      {"&#43;&#x2B;&#x2b;", "+++"},
      {"&#233;", "\xc3\xa9"},
      {"&#x65E5;", "\xe6\x97\xa5"},
      {"&#x1F600;", "\xf0\x9f\x98\x80"},
      {"&amp;#43;", "&#43;"},
      {"&unknown;", "&unknown;"},
      {"&#0;", "&#0;"},
      {"&#xD800;", "&#xD800;"},
      {"&#99999999999;", "&#99999999999;"},
      {"a&", "a&"},
      {"&;", "&;"},
      {"&#;", "&#;"},
      {"&#x;", "&#x;"}};
  for (const auto& [written, read] : cases) {
    const std::string xml = "<ListBucketResult><Contents><Key>" + written +
                            "</Key><Size>1</Size></Contents></ListBucketResult>";
    const auto page = ParseS3Page(BytesOf(xml));
    ASSERT_TRUE(page.ok()) << page.status();
    EXPECT_THAT(page->objects, ElementsAre(S3Object{read, 1})) << written;
  }
}

TEST(S3ReplyTest, KeysAreFoundHoweverTheyAreListed) {
  EXPECT_EQ(KeyBehind("a b/", "a%20b/x"), "x");
  EXPECT_EQ(KeyBehind("a b/", "a+b/x"), "x");
  EXPECT_EQ(KeyBehind("a b/", "a b/x"), "x");
  EXPECT_EQ(KeyBehind("a+b/", "a%2Bb/x"), "x");
  EXPECT_EQ(KeyBehind("a+@/", "a+%40/x"), "x");
  EXPECT_EQ(KeyBehind("%41/", "%2541/x"), "x");
  EXPECT_EQ(KeyBehind("%/", "%25/x"), "x");
  EXPECT_EQ(KeyBehind("%25/", "%2525/x"), "x");
  EXPECT_EQ(KeyBehind("", "x"), "x");
  EXPECT_EQ(KeyBehind("a/", "b/x"), std::nullopt);
}

TEST(S3ReplyTest, HalfAPageIsCorruption) {
  const std::string whole =
      "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>t"
      "</NextContinuationToken><Contents><Key>k</Key><Size>1</Size></Contents></ListBucketResult>";
  ASSERT_TRUE(ParseS3Page(BytesOf(whole)).ok());
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(ParseS3Page(BytesOf(whole.substr(0, size))).ok()) << size;
  }
}

}  // namespace
}  // namespace ps::store
