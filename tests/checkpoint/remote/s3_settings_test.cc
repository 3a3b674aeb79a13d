#include "checkpoint/remote/s3_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "ps/base/file.h"
#include "tests/checkpoint/temporary_path.h"

namespace ps::checkpoint {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

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

class S3CredentialsTest : public testing::Test {
 protected:
  S3CredentialsTest() { variables_["HOME"] = home_.path(); }

  Result<S3Credentials> Find() {
    const Environment environment = [this](const std::string& name) -> std::optional<std::string> {
      const auto it = variables_.find(name);
      return it == variables_.end() ? std::nullopt : std::optional(it->second);
    };
    return FindS3Credentials(environment, &location_);
  }

  void Write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories(home_.path() + "/.aws");
    ASSERT_TRUE(WriteFileAtomically(home_.path() + "/.aws/" + name, text).ok());
  }

  TemporaryPath home_;
  std::map<std::string, std::string> variables_;
  S3Location location_ = *ParseS3Location("s3://bucket/p");
};

TEST_F(S3CredentialsTest, TheEnvironmentGoesFirst) {
  Write("credentials", "[default]\naws_access_key_id = F\naws_secret_access_key = G\n");
  variables_["AWS_ACCESS_KEY_ID"] = "I";
  variables_["AWS_SECRET_ACCESS_KEY"] = "S";
  variables_["AWS_SESSION_TOKEN"] = "T";
  variables_["AWS_DEFAULT_REGION"] = "eu-north-1";
  const auto found = Find();
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->key.id, "I");
  EXPECT_EQ(found->key.secret, "S");
  EXPECT_EQ(found->session_token, "T");
  EXPECT_EQ(found->key.region, "eu-north-1");
  EXPECT_EQ(found->source, "the environment");
}

TEST_F(S3CredentialsTest, AProfileIsReadFromBothFiles) {
  Write(
      "credentials",
      "# keys\n[default]\naws_access_key_id=F\naws_secret_access_key=G\n\n[ml]\n"
      "aws_access_key_id = M\naws_secret_access_key = a=b\naws_session_token = t\n");
  Write("config", "[profile ml]\nregion = ap-south-1\nendpoint_url = http://minio:9000\n");
  variables_["AWS_PROFILE"] = "ml";
  const auto found = Find();
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->key.id, "M");
  EXPECT_EQ(found->key.secret, "a=b");
  EXPECT_EQ(found->session_token, "t");
  EXPECT_EQ(location_.region, "ap-south-1");
  EXPECT_EQ(location_.endpoint, "http://minio:9000");
  EXPECT_TRUE(location_.is_path_style);
  EXPECT_THAT(found->source, HasSubstr("profile ml of "));
  variables_.erase("AWS_PROFILE");
  EXPECT_EQ(Find()->key.id, "F");
}

TEST_F(S3CredentialsTest, FilesMayBeElsewhere) {
  ASSERT_TRUE(
      WriteFileAtomically(
          home_.path() + "/keys", "[default]\naws_access_key_id=E\naws_secret_access_key=S\n")
          .ok());
  variables_["AWS_SHARED_CREDENTIALS_FILE"] = home_.path() + "/keys";
  EXPECT_EQ(Find()->key.id, "E");
  EXPECT_EQ(location_.region, "us-east-1");
}

TEST_F(S3CredentialsTest, ThePlaceGoesBeforeTheEnvironment) {
  variables_["AWS_ACCESS_KEY_ID"] = "I";
  variables_["AWS_SECRET_ACCESS_KEY"] = "S";
  variables_["AWS_REGION"] = "eu-north-1";
  variables_["AWS_ENDPOINT_URL"] = "http://one:1";
  location_ = *ParseS3Location("s3://bucket/p?region=us-west-2&endpoint=http://two:2");
  ASSERT_TRUE(Find().ok());
  EXPECT_EQ(location_.region, "us-west-2");
  EXPECT_EQ(location_.endpoint, "http://two:2");
}

TEST_F(S3CredentialsTest, WhatIsMissingIsNamed) {
  const auto none = Find();
  EXPECT_EQ(none.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(none.status().message()), HasSubstr("set AWS_ACCESS_KEY_ID and"));
  EXPECT_THAT(std::string(none.status().message()), HasSubstr("profile default of "));
  variables_["AWS_ACCESS_KEY_ID"] = "I";
  EXPECT_THAT(std::string(Find().status().message()), HasSubstr("AWS_SECRET_ACCESS_KEY is not"));
  variables_["AWS_ENDPOINT_URL"] = "minio";
  EXPECT_THAT(std::string(Find().status().message()), HasSubstr("AWS_ENDPOINT_URL: \"minio\""));
}

TEST_F(S3CredentialsTest, NoTextHasASecret) {
  Write("credentials", "[default]\naws_secret_access_key = hidden\n");
  EXPECT_THAT(std::string(Find().status().message()), Not(HasSubstr("hidden")));
}

}  // namespace
}  // namespace ps::checkpoint
