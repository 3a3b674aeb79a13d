#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "ps/http/http.h"
#include "tests/http/server_process.h"
#include "tests/provisioner/provider/provider_conformance.h"

namespace ps::provisioner {

/// Python of the build tree, with moto, where scripts/setup.sh has made one.
inline std::string TestPython() {
  const std::string own = "build/venv/bin/python3";
  return std::filesystem::exists(own) ? own : "python3";
}

/// One of the fault servers of this folder.
class ServedCloud : public Cloud {
 public:
  explicit ServedCloud(const std::string& script)
      : server_({TestPython(), "tests/provisioner/provider/" + script}), http_(Http()) {}

  std::string why_not() const override {
    return server_.port() == 0 ? "no server: " + server_.why() + "; is python3 installed?" : "";
  }

  std::string url() const { return "http://127.0.0.1:" + std::to_string(server_.port()); }

  void Order(const std::string& json) override {
    const HttpReply reply = Ask("POST", "/control", json);
    ASSERT_EQ(reply.status, 200) << json;
  }

  JsonValue Book() override {
    const HttpReply reply = Ask("GET", "/book", "");
    auto book = ParseJson(
        std::string_view(reinterpret_cast<const char*>(reply.body.data()), reply.body.size()),
        "the book");
    EXPECT_TRUE(book.ok()) << book.status();
    return book.ok() ? *book : JsonValue{};
  }

 protected:
  static std::shared_ptr<HttpClient> Http() {
    return MakeHttpClient(
        {.connect = std::chrono::seconds(5), .total = std::chrono::seconds(10)}, nullptr);
  }

  HttpReply Ask(const char* method, const char* path, const std::string& body) {
    HttpRequest request;
    request.method = method;
    request.url = url() + path;
    request.body = std::as_bytes(std::span(body));
    request.reply_bytes_max = size_t{16} << 20;
    request.is_direct = true;
    const auto reply = http_->Do(request);
    EXPECT_TRUE(reply.ok()) << reply.status();
    return reply.ok() ? *reply : HttpReply{};
  }

 private:
  ServerProcess server_;
  std::shared_ptr<HttpClient> http_;
};

}  // namespace ps::provisioner
