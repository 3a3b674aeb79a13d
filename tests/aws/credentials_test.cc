#include "ps/aws/credentials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ps/base/file.h"
#include "tests/base/temporary_folder.h"

namespace ps::aws {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class CredentialsTest : public testing::Test {
 protected:
  CredentialsTest() { variables_["HOME"] = home_.path(); }

  Result<Credentials> Find() {
    const Environment environment = [this](const std::string& name) -> std::optional<std::string> {
      const auto it = variables_.find(name);
      return it == variables_.end() ? std::nullopt : std::optional(it->second);
    };
    return FindCredentials(environment, http_, "s3://bucket", &service_);
  }

  void Write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories(home_.path() + "/.aws");
    ASSERT_TRUE(WriteFileAtomically(home_.path() + "/.aws/" + name, text).ok());
  }

  TemporaryFolder home_;
  std::map<std::string, std::string> variables_;
  HttpClient* http_ = nullptr;  // no service is asked
  Service service_ = {.name = "s3", .region = {}, .endpoint = {}};
};

TEST_F(CredentialsTest, TheEnvironmentGoesFirst) {
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

TEST_F(CredentialsTest, AProfileIsReadFromBothFiles) {
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
  EXPECT_EQ(service_.region, "ap-south-1");
  EXPECT_EQ(service_.endpoint, "http://minio:9000");
  EXPECT_THAT(found->source, HasSubstr("profile ml of "));
  variables_.erase("AWS_PROFILE");
  EXPECT_EQ(Find()->key.id, "F");
}

TEST_F(CredentialsTest, FilesMayBeElsewhere) {
  ASSERT_TRUE(
      WriteFileAtomically(
          home_.path() + "/keys", "[default]\naws_access_key_id=E\naws_secret_access_key=S\n")
          .ok());
  variables_["AWS_SHARED_CREDENTIALS_FILE"] = home_.path() + "/keys";
  EXPECT_EQ(Find()->key.id, "E");
  EXPECT_EQ(service_.region, "us-east-1");
}

TEST_F(CredentialsTest, ThePlaceGoesBeforeTheEnvironment) {
  variables_["AWS_ACCESS_KEY_ID"] = "I";
  variables_["AWS_SECRET_ACCESS_KEY"] = "S";
  variables_["AWS_REGION"] = "eu-north-1";
  variables_["AWS_ENDPOINT_URL"] = "http://one:1";
  service_ = {.name = "s3", .region = "us-west-2", .endpoint = "http://two:2"};
  ASSERT_TRUE(Find().ok());
  EXPECT_EQ(service_.region, "us-west-2");
  EXPECT_EQ(service_.endpoint, "http://two:2");
}

TEST_F(CredentialsTest, WhatIsMissingIsNamed) {
  const auto none = Find();
  EXPECT_EQ(none.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(none.status().message()), HasSubstr("set AWS_ACCESS_KEY_ID and"));
  EXPECT_THAT(std::string(none.status().message()), HasSubstr("profile default of "));
  variables_["AWS_ACCESS_KEY_ID"] = "I";
  EXPECT_THAT(std::string(Find().status().message()), HasSubstr("AWS_SECRET_ACCESS_KEY is not"));
  variables_["AWS_ENDPOINT_URL"] = "minio";
  EXPECT_THAT(std::string(Find().status().message()), HasSubstr("AWS_ENDPOINT_URL: \"minio\""));
}

/// Answers by "METHOD URL"; everything else is refused.
class FakeServices final : public HttpClient {
 public:
  Result<HttpReply> Do(const HttpRequest& request) override {
    const std::string asked = request.method + " " + request.url;
    headers_[asked] = request.headers;
    EXPECT_TRUE(request.is_direct) << "no proxy reaches this machine's services";
    const auto it = replies_.find(asked);
    if (it == replies_.end()) {
      return Status::Unavailable("Failed to connect");
    }
    HttpReply reply;
    reply.status = it->second.first;
    const auto bytes = std::as_bytes(std::span(it->second.second));
    reply.body.assign(bytes.begin(), bytes.end());
    return reply;
  }

  std::map<std::string, std::pair<int, std::string>> replies_;
  std::map<std::string, std::vector<std::string>> headers_;
};

constexpr const char* kRoles = "/latest/meta-data/iam/security-credentials/";
constexpr const char* kKeys =
    R"({"Code": "Success", "AccessKeyId": "R", "SecretAccessKey": "a+/=", "Token": "t",
        "Expiration": "2026-01-01T00:00:00Z"})";

TEST_F(CredentialsTest, AnInstancesRoleIsTakenWhereNothingElseIs) {
  FakeServices services;
  http_ = &services;
  const std::string url = "http://169.254.169.254";
  services.replies_["PUT " + url + "/latest/api/token"] = {200, "TOKEN"};
  services.replies_["GET " + url + kRoles] = {200, "ml-role\n"};
  services.replies_["GET " + url + kRoles + "ml-role"] = {200, kKeys};
  const auto found = Find();
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->key.id, "R");
  EXPECT_EQ(found->key.secret, "a+/=");
  EXPECT_EQ(found->key.region, "us-east-1");
  EXPECT_EQ(found->session_token, "t");
  EXPECT_EQ(found->source, "the instance's role ml-role");
  EXPECT_THAT(
      services.headers_["GET " + url + kRoles],
      testing::ElementsAre("X-aws-ec2-metadata-token: TOKEN"));
  services.replies_["GET " + url + kRoles] = {404, ""};
  EXPECT_THAT(std::string(Find().status().message()), HasSubstr("(this instance has no role)"));
  services.replies_["PUT " + url + "/latest/api/token"] = {500, ""};
  EXPECT_EQ(Find().status().code(), StatusCode::kUnavailable);
  services.replies_.clear();
  EXPECT_EQ(Find().status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Find().status().message()), HasSubstr("Failed to connect"));
  variables_["AWS_EC2_METADATA_DISABLED"] = "true";
  services.headers_.clear();
  EXPECT_FALSE(Find().ok());
  EXPECT_TRUE(services.headers_.empty()) << "it is not asked";
}

TEST_F(CredentialsTest, AContainersServiceIsAskedBeforeTheInstances) {
  FakeServices services;
  http_ = &services;
  services.replies_["GET http://169.254.170.2/v2/x"] = {200, kKeys};
  variables_["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"] = "/v2/x";
  EXPECT_EQ(Find()->key.id, "R");
  variables_.erase("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
  services.replies_["GET http://127.0.0.1:9/keys"] = {200, kKeys};
  variables_["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = "http://127.0.0.1:9/keys";
  ASSERT_TRUE(WriteFileAtomically(home_.path() + "/pod-token", "Bearer x\n").ok());
  variables_["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"] = home_.path() + "/pod-token";
  EXPECT_EQ(Find()->key.id, "R");
  EXPECT_THAT(
      services.headers_["GET http://127.0.0.1:9/keys"],
      testing::ElementsAre("Authorization: Bearer x"));
  services.replies_["GET http://127.0.0.1:9/keys"] = {200, "<html>hidden</html>"};
  EXPECT_EQ(Find().status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(Find().status().message()), Not(HasSubstr("hidden")));
}

TEST_F(CredentialsTest, AProfilesCommandIsRunAnewEachTime) {
  Write(
      "config",
      "[default]\nregion = eu-north-1\ncredential_process = sed s/ID/\"P Q\"/ " + home_.path() +
          "/keys | tr -d ' '\n");
  const std::string keys = home_.path() + "/keys";
  ASSERT_TRUE(
      WriteFileAtomically(keys, R"({"Version": 1, "AccessKeyId": "ID", "SecretAccessKey": "S",
                    "SessionToken": "one"})")
          .ok());
  const auto found = Find();
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->key.id, "PQ");
  EXPECT_EQ(found->key.region, "eu-north-1");
  EXPECT_EQ(found->session_token, "one");
  EXPECT_EQ(found->source, "credential_process of profile default");
  ASSERT_TRUE(WriteFileAtomically(keys, "no keys, but hidden words").ok());
  EXPECT_EQ(Find().status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(Find().status().message()), Not(HasSubstr("hidden")));
  Write("config", "[default]\ncredential_process = exit 7\n");
  EXPECT_THAT(
      std::string(Find().status().message()),
      HasSubstr("credential_process of profile default: it exited with code 7"));
}

TEST_F(CredentialsTest, WhatIsNotReadIsNamedWithAWay) {
  FakeServices services;
  http_ = &services;
  for (const std::string setting : {"sso_session", "role_arn", "web_identity_token_file"}) {
    Write("config", "[default]\n" + setting + " = x\n");
    const Status none = Find().status();
    EXPECT_EQ(none.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(none.message()), HasSubstr("the profile default has " + setting));
    EXPECT_THAT(std::string(none.message()), HasSubstr("aws configure export-credentials"));
  }
  Write("config", "");
  variables_["AWS_WEB_IDENTITY_TOKEN_FILE"] = "/x";
  EXPECT_THAT(
      std::string(Find().status().message()), HasSubstr("AWS_WEB_IDENTITY_TOKEN_FILE is set"));
  EXPECT_TRUE(services.headers_.empty()) << "the instance's role is not what was asked for";
}

TEST_F(CredentialsTest, NoTextHasASecret) {
  Write("credentials", "[default]\naws_secret_access_key = hidden\n");
  EXPECT_THAT(std::string(Find().status().message()), Not(HasSubstr("hidden")));
}

}  // namespace
}  // namespace ps::aws
