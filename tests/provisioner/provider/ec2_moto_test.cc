// EC2's wire against moto, which other people wrote: it knows parameters and replies, but no stock,
// quotas, or tokens.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <memory>
#include <string>

#include "provisioner/provider/ec2.h"
#include "tests/http/server_process.h"
#include "tests/provisioner/provider/served_cloud.h"

namespace ps::provisioner {
namespace {

class MotoTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    server_ = std::make_unique<ServerProcess>(
        std::vector<std::string>{TestPython(), "tests/provisioner/provider/moto_server.py"});
  }

  static void TearDownTestSuite() { server_.reset(); }

  void SetUp() override {
    if (server_->port() == 0) {
      GTEST_SKIP() << server_->why() << "; scripts/setup.sh --tests installs it";
    }
    Ec2Options options;
    options.region = "us-east-1";
    options.endpoint = "http://127.0.0.1:" + std::to_string(server_->port());
    options.http = MakeHttpClient({}, nullptr);
    options.find_credentials = [] {
      aws::Credentials keys;
      keys.key.id = "id";
      keys.key.secret = "secret";
      keys.source = "the test";
      return keys;
    };
    provider_ = MakeEc2Provider(std::move(options));
    request_.token = "run-worker-1";
    request_.pools = {{.type = "g4dn.xlarge", .zone = "us-east-1a", .is_spot = true}};
    request_.setup.image = server_->why().substr(server_->why().find(' ') + 1);
    request_.setup.key_name = "key-1";
    request_.setup.disk_gib = 100;
    request_.setup.user_data = "#!/bin/sh\ntrue\n";
    request_.tags = {{"run", testing::UnitTest::GetInstance()->current_test_info()->name()}};
    std::transform(
        request_.tags["run"].begin(),
        request_.tags["run"].end(),
        request_.tags["run"].begin(),
        [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  }

  static std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<Provider> provider_;
  RentRequest request_;
};

std::unique_ptr<ServerProcess> MotoTest::server_;

TEST_F(MotoTest, MachinesComeAreListedAndGo) {
  for (const bool is_spot : {true, false}) {
    request_.pools[0].is_spot = is_spot;
    request_.token += is_spot ? "" : "-stable";
    const RentReply rent = provider_->Rent(request_);
    ASSERT_TRUE(rent.end.ok()) << rent.end.message;
    const ListReply list = provider_->List(request_.tags);
    ASSERT_TRUE(list.end.ok()) << list.end.message;
    ASSERT_EQ(list.machines.size(), is_spot ? 1U : 2U);
    const Machine& machine = list.machines.back();
    EXPECT_EQ(machine.id, rent.machine->id);
    EXPECT_EQ(machine.token, request_.token);
    EXPECT_EQ(machine.tags, request_.tags);
    EXPECT_EQ(machine.pool.type, "g4dn.xlarge");
    EXPECT_EQ(machine.state, MachineState::kRunning);
    EXPECT_NE(machine.private_address, "");
    EXPECT_GT(machine.started_us, 1'600'000'000'000'000);
    const CallEnd end = provider_->Release({machine.id, "i-0123456789abcdef0"});
    EXPECT_TRUE(end.ok()) << end.message;
  }
  for (const Machine& machine : provider_->List(request_.tags).machines) {
    EXPECT_EQ(machine.state, MachineState::kGone);
  }
  const CallEnd tidied = provider_->Tidy(request_.tags);
  EXPECT_TRUE(tidied.ok()) << tidied.message;
}

TEST_F(MotoTest, PricesAreRead) {
  const PriceReply prices = provider_->Prices(request_.pools, 0);
  EXPECT_TRUE(prices.end.ok()) << prices.end.message;
}

TEST_F(MotoTest, TheCheckUnderstandsItsAnswers) {
  for (const CheckLine& line : provider_->Check(request_)) {
    // moto has none of the quotas of EC2.
    EXPECT_TRUE(line.end.ok() || line.what.starts_with("quota"))
        << line.what << ": " << line.end.message;
  }
}

}  // namespace
}  // namespace ps::provisioner
