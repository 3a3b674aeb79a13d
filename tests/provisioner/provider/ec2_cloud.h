#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "provisioner/provider/ec2.h"
#include "tests/provisioner/provider/provider_conformance.h"
#include "tests/provisioner/provider/served_cloud.h"

namespace ps::provisioner {

/// ec2_server.py.
class Ec2Cloud final : public ServedCloud {
 public:
  Ec2Cloud() : ServedCloud("ec2_server.py") {}

  static aws::Credentials KeysOf(std::string id, std::string secret, std::string session = "") {
    aws::Credentials keys;
    keys.key.id = std::move(id);
    keys.key.secret = std::move(secret);
    keys.session_token = std::move(session);
    keys.source = "the test";
    return keys;
  }

  std::unique_ptr<Provider> Open(Keys keys) override {
    Ec2Options options;
    options.region = "eu-test-1";
    options.endpoint = url();
    options.http = Http();
    options.find_credentials = [keys, times = 0]() mutable -> Result<aws::Credentials> {
      ++times;
      if (keys == Keys::kExpireOnce && times == 2) {
        return KeysOf("AKIDSECOND", "YW5vdGhlci1zZWNyZXQ", "a-session");
      }
      return KeysOf(
          keys == Keys::kUnknown ? "AKIDOTHERONE" : "AKIDTEST",
          keys == Keys::kWrongSecret ? "hidden-words" : "c2VjcmV0LW9mLXRoZS10ZXN0");
    };
    return MakeEc2Provider(std::move(options));
  }

  RentRequest Request(const std::string& token) const override {
    RentRequest request;
    request.token = token;
    request.pools = {
        {.type = "g4dn.xlarge", .zone = "eu-test-1a", .is_spot = true},
        {.type = "g5.xlarge", .zone = "eu-test-1b", .is_spot = true}};
    request.setup.image = "ami-1";
    request.setup.security_group = "sg-1";
    request.setup.key_name = "key-1";
    request.setup.role = "ml";
    request.setup.user_data = "#!/bin/sh\necho <started> & \xc3\xa9\n";
    request.tags = {{"run", "r1"}, {"seat", "worker-1"}, {"empty", ""}};
    return request;
  }
};

}  // namespace ps::provisioner
