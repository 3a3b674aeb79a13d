#include "tests/run/page/browser.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <utility>

#include "ps/json/json_writer.h"
#include "tests/run/page/raw_http.h"

namespace ps::run {
namespace {

std::string Quoted(const std::string& text) {
  JsonWriter json(JsonForm::kOneLine);
  json.Value(text);
  return std::move(json).Take();
}

std::string FromBase64(const std::string& text) {
  static constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  uint32_t held = 0;
  int bits = 0;
  for (const char c : text) {
    const size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) {
      break;
    }
    held = (held << 6) | static_cast<uint32_t>(digit);
    bits += 6;
    if (bits >= 8) {
      bits -= 8;
      bytes.push_back(static_cast<char>((held >> bits) & 0xff));
    }
  }
  return bytes;
}

}  // namespace

std::string Browser::WhyNot() {
  return std::system("command -v chromium > /dev/null && command -v chromedriver > /dev/null") == 0
             ? ""
             : "chromium and chromedriver are not installed (scripts/setup.sh --tests installs "
               "them where the distribution has them)";
}

std::unique_ptr<Browser> Browser::Start(const std::string& folder) {
  std::unique_ptr<Browser> browser(new Browser());
  browser->driver_ = std::make_unique<e2e::Process>(e2e::Process::Options{
      .program = "/usr/bin/chromedriver",
      .arguments = {"--port=0"},
      .directory = folder,
      .output_stem = folder + "/chromedriver"});
  constexpr std::string_view kSays = "started successfully on port ";
  const bool is_there = e2e::WaitUntil([&] {
    const std::string said = browser->driver_->Out();
    const size_t at = said.find(kSays);
    if (at == std::string::npos || said.find('.', at) == std::string::npos) {
      return false;
    }
    browser->port_ =
        static_cast<uint32_t>(std::strtoul(said.c_str() + at + kSays.size(), nullptr, 10));
    return true;
  });
  const std::string wanted =
      R"({"capabilities":{"alwaysMatch":{"goog:chromeOptions":{"args":["--headless=new",)"
      R"("--no-sandbox","--disable-gpu","--disable-dev-shm-usage","--no-first-run",)"
      R"("--hide-scrollbars","--window-size=1280,1400","--enable-precise-memory-info",)" +
      Quoted("--user-data-dir=" + folder + "/chromium") + "]}}}}";
  if (is_there) {
    const e2e::Json made = browser->Ask("POST", "/session", wanted);
    if (made.Has("sessionId")) {
      browser->session_ = made["sessionId"].text();
      return browser;
    }
  }
  ADD_FAILURE() << "no browser: " << browser->driver_->Out() << browser->driver_->Err();
  return nullptr;
}

Browser::~Browser() {
  if (!session_.empty()) {
    Ask("DELETE", "/session/" + session_);
  }
}

e2e::Json Browser::Ask(
    const std::string& method, const std::string& path, const std::string& body) {
  std::string request = method + " " + path +
                        " HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(port_) +
                        "\r\nConnection: close\r\n";
  if (method == "POST") {
    request +=
        "Content-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) + "\r\n";
  }
  const RawReply reply = Exchange(port_, request + "\r\n" + body);
  const auto json = e2e::Json::Parse(reply.body);
  EXPECT_EQ(reply.status, 200) << method << " " << path << " " << body << "\n" << reply.body;
  return json.has_value() && json->Has("value") ? (*json)["value"] : e2e::Json();
}

void Browser::Open(const std::string& url) {
  Ask("POST", "/session/" + session_ + "/url", R"({"url":)" + Quoted(url) + "}");
}

e2e::Json Browser::Run(const std::string& script, bool is_async) {
  return Ask(
      "POST",
      "/session/" + session_ + "/execute/" + (is_async ? "async" : "sync"),
      R"({"args":[],"script":)" + Quoted(script) + "}");
}

bool Browser::Becomes(const std::string& expression, Duration deadline) {
  return e2e::WaitUntil(
      [&] { return Run("return (" + expression + ") ? 'yes' : 'no'").text() == "yes"; },
      deadline,
      std::chrono::milliseconds(100));
}

void Browser::Click(const std::string& selector) {
  const e2e::Json found =
      Ask("POST",
          "/session/" + session_ + "/element",
          R"({"using":"css selector","value":)" + Quoted(selector) + "}");
  // What the protocol calls an element.
  const std::string element = "element-6066-11e4-a52e-4f735466cecf";
  if (found.Has(element)) {
    Ask("POST", "/session/" + session_ + "/element/" + found[element].text() + "/click", "{}");
  }
}

e2e::Json Browser::Command(const std::string& name, const std::string& parameters) {
  return Ask(
      "POST",
      "/session/" + session_ + "/goog/cdp/execute",
      R"({"cmd":)" + Quoted(name) + R"(,"params":)" + parameters + "}");
}

void Browser::TakePicture(const std::string& name) {
  const char* const folder = std::getenv("PS_SCREENSHOTS");
  if (folder == nullptr) {
    return;
  }
  const std::string picture = FromBase64(Ask("GET", "/session/" + session_ + "/screenshot").text());
  std::ofstream(std::string(folder) + "/" + name + ".png", std::ios::binary) << picture;
}

}  // namespace ps::run
