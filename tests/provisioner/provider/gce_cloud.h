#pragma once

#include <fmt/core.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "provisioner/provider/gce.h"
#include "ps/base/file.h"
#include "tests/base/temporary_folder.h"
#include "tests/provisioner/provider/provider_conformance.h"
#include "tests/provisioner/provider/served_cloud.h"

namespace ps::provisioner {

/// gce_server.py. Its keys are files, as on a user's machine.
class GceCloud final : public ServedCloud {
 public:
  GceCloud() : ServedCloud("gce_server.py") {
    if (!ServedCloud::why_not().empty()) {
      return;
    }
    const HttpReply reply = Ask("GET", "/key.json", "");
    const std::string key(reinterpret_cast<const char*>(reply.body.data()), reply.body.size());
    Write("account", key);
    std::string other = key;
    const size_t at = other.find("ml@p-1");
    if (at == std::string::npos) {
      why_not_ = "no key; is the program openssl installed?";
      return;
    }
    Write("unknown", other.replace(at, 2, "xx"));
    Write("second", Login("client-secret"));
    Write("wrong", Login("hidden-words"));
  }

  std::string why_not() const override {
    return why_not_.empty() ? ServedCloud::why_not() : why_not_;
  }

  std::string FileOf(const std::string& name) const { return folder_.path() + "/" + name; }

  /// The token of that file.
  static GoogleTokenSource FromFile(const std::string& path) {
    return [path, http = Http()] {
      const Environment environment = [&](const std::string& name) {
        return name == "GOOGLE_APPLICATION_CREDENTIALS" ? std::optional(path) : std::nullopt;
      };
      return FindGoogleToken(environment, http.get(), SystemTime());
    };
  }

  std::unique_ptr<Provider> Open(Keys keys) override {
    GceOptions options;
    options.project = "p-1";
    options.endpoint = url();
    options.http = Http();
    const char* const name = keys == Keys::kUnknown       ? "unknown"
                             : keys == Keys::kWrongSecret ? "wrong"
                                                          : "account";
    options.find_token = FromFile(FileOf(name));
    if (keys == Keys::kExpireOnce) {
      options.find_token = [first = FromFile(FileOf("account")),
                            second = FromFile(FileOf("second")),
                            times = 0]() mutable { return ++times == 1 ? first() : second(); };
    }
    return MakeGceProvider(std::move(options));
  }

  RentRequest Request(const std::string& token) const override {
    RentRequest request;
    request.token = token;
    request.pools = {
        {.type = "n1-standard-8-t4", .zone = "us-central1-a", .is_spot = true},
        {.type = "g2-standard-4", .zone = "us-central1-b", .is_spot = true}};
    request.setup.image = "global/images/family/spotps";
    request.setup.security_group = "training";
    request.setup.role = "worker@p-1.iam.gserviceaccount.com";
    request.setup.user_data = "#!/bin/sh\necho \"started\" & \xc3\xa9\n";
    request.setup.disk_gib = 100;
    request.setup.run_max = std::chrono::hours(2);
    request.tags = {{"run", "r1"}, {"seat", "worker-1"}, {"empty", ""}};
    return request;
  }

 private:
  std::string Login(const char* secret) const {
    return fmt::format(
        R"({{"type": "authorized_user", "client_id": "c", "client_secret": "{}",
             "refresh_token": "second", "token_uri": "{}/token"}})",
        secret,
        url());
  }

  void Write(const std::string& name, const std::string& text) const {
    ASSERT_TRUE(WriteFileAtomically(FileOf(name), text).ok());
  }

  TemporaryFolder folder_;
  std::string why_not_;
};

}  // namespace ps::provisioner
