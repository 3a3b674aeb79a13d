#include "ps/store/s3_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>

namespace ps::store {
namespace {

using ::testing::HasSubstr;

TEST(S3LocationTest, BucketAndPrefixAreRead) {
  const auto location = ParseS3Location("s3://my-bucket/runs/one/");
  ASSERT_TRUE(location.ok()) << location.status();
  EXPECT_EQ(location->bucket, "my-bucket");
  EXPECT_EQ(location->prefix, "runs/one");
  EXPECT_FALSE(location->is_path_style);
  EXPECT_EQ(ParseS3Location("s3://my-bucket")->prefix, "");
}

TEST(S3LocationTest, OptionsSayHowItIsReached) {
  const auto location =
      ParseS3Location("s3://b.c/p?endpoint=http://minio:9000/&region=eu-west-1&style=virtual");
  ASSERT_TRUE(location.ok()) << location.status();
  EXPECT_EQ(location->endpoint, "http://minio:9000");
  EXPECT_EQ(location->region, "eu-west-1");
  EXPECT_FALSE(location->is_path_style);
  EXPECT_TRUE(ParseS3Location("s3://abc/p?endpoint=http://minio:9000")->is_path_style);
  EXPECT_TRUE(ParseS3Location("s3://a.bc/p")->is_path_style);
}

TEST(S3LocationTest, EveryMistakeIsNamed) {
  const std::map<std::string, std::string> mistakes = {
      {"s3:/b", "does not begin with s3://"},
      {"s3://", "\"\" is no name of a bucket"},
      {"s3://Bucket/x", "\"Bucket\" is no name of a bucket"},
      {"s3://abc/x y", "not printable"},
      {"s3://abc/caf\xc3\xa9", "not printable"},
      {"s3://abc/jobs/../runs/7", "write s3://abc/runs/7"},
      {"s3://abc/a/./b", "write s3://abc/a/b"},
      {"s3://abc/..", "write s3://abc;"},
      {"s3://abc/../../a/.", "write s3://abc/a;"},
      {"s3://abc/x?speed=9", "unknown option \"speed=9\""},
      {"s3://abc/x?region=", "unknown option \"region=\""},
      {"s3://abc/x?style=both", "allowed: endpoint=URL"},
      {"s3://abc/x?endpoint=minio:9000", "\"minio:9000\" is no endpoint"},
      {"s3://abc/x?endpoint=http://h/path", "is no endpoint"}};
  for (const auto& [text, said] : mistakes) {
    const auto location = ParseS3Location(text);
    ASSERT_FALSE(location.ok()) << text;
    EXPECT_EQ(location.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(location.status().message()), HasSubstr(said));
  }
}

TEST(S3LocationTest, AnEndpointOfTheEnvironmentIsReachedByPath) {
  const Environment environment = [](const std::string& name) -> std::optional<std::string> {
    if (name == "AWS_ENDPOINT_URL_S3") {
      return "http://minio:9000";
    }
    return name.ends_with("KEY_ID") || name.ends_with("ACCESS_KEY") ? std::optional("x")
                                                                    : std::nullopt;
  };
  S3Location location = *ParseS3Location("s3://bucket/p?region=eu-west-1");
  ASSERT_TRUE(FindS3Credentials(environment, nullptr, &location).ok());
  EXPECT_EQ(location.endpoint, "http://minio:9000");
  EXPECT_TRUE(location.is_path_style);
  EXPECT_EQ(location.region, "eu-west-1");
}

}  // namespace
}  // namespace ps::store
