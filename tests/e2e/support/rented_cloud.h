#pragma once

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ps/http/http.h"
#include "tests/e2e/support/json.h"
#include "tests/http/server_process.h"

namespace ps::e2e {

/// The fault server of a provider: tests/provisioner/provider/cloud.py says what it takes and
/// tells.
class RentedCloud {
 public:
  explicit RentedCloud(const std::string& script)
      : server_({Python(), "tests/provisioner/provider/" + script}),
        http_(MakeHttpClient(
            {.connect = std::chrono::seconds(5), .total = std::chrono::seconds(10)}, nullptr)) {}

  /// Empty: it runs.
  std::string why_not() const {
    return server_.port() == 0 ? "no server: " + server_.why() + "; is python3 installed?" : "";
  }

  std::string url() const { return fmt::format("http://127.0.0.1:{}", server_.port()); }

  void Order(const std::string& json) { Ask("POST", "/control", json); }

  Json Book() {
    const std::optional<Json> book = Json::Parse(Ask("GET", "/book", ""));
    EXPECT_TRUE(book.has_value());
    return book.value_or(Json());
  }

  /// Those that are there.
  std::vector<Json> Machines() {
    std::vector<Json> there;
    const Json machines = Book()["machines"];
    for (size_t i = 0; i < machines.size(); i++) {
      const std::string& state = machines[i]["state"].text();
      if (state == "starting" || state == "running") {
        there.push_back(machines[i]);
      }
    }
    return there;
  }

 private:
  static std::string Python() {
    const std::string own = "build/venv/bin/python3";
    return std::filesystem::exists(own) ? own : "python3";
  }

  std::string Ask(const char* method, const char* path, const std::string& body) {
    HttpRequest request;
    request.method = method;
    request.url = url() + path;
    request.body = std::as_bytes(std::span(body));
    request.reply_bytes_max = size_t{16} << 20;
    request.is_direct = true;
    const auto reply = http_->Do(request);
    EXPECT_TRUE(reply.ok()) << reply.status();
    if (!reply.ok()) {
      return "{}";
    }
    EXPECT_EQ(reply->status, 200) << body;
    return {reinterpret_cast<const char*>(reply->body.data()), reply->body.size()};
  }

  ServerProcess server_;
  std::unique_ptr<HttpClient> http_;
};

}  // namespace ps::e2e
