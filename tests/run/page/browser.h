#pragma once

#include <memory>
#include <optional>
#include <string>

#include "tests/e2e/support/json.h"
#include "tests/e2e/support/process.h"

namespace ps::run {

/// A headless Chromium that a test types into and reads from, by the protocol WebDriver. It ends
/// with its owner.
class Browser {
 public:
  /// Why there is none here; empty: there is one.
  static std::string WhyNot();

  /// `folder`: where it may write. A browser that does not come is a test failure and null.
  static std::unique_ptr<Browser> Start(const std::string& folder);

  Browser(const Browser&) = delete;
  Browser& operator=(const Browser&) = delete;
  ~Browser();

  void Open(const std::string& url);
  /// What a script of the page's returns, "return 1 + 1" for example; of an async one, what it
  /// gives to its last argument.
  e2e::Json Run(const std::string& script, bool is_async = false);
  /// Whether the expression comes to be true.
  bool Becomes(const std::string& expression, Duration deadline = e2e::kPatience);
  void Click(const std::string& selector);
  /// A command of Chromium's own protocol: what it says.
  e2e::Json Command(const std::string& name, const std::string& parameters = "{}");
  /// Into the folder that PS_SCREENSHOTS names, if it does.
  void TakePicture(const std::string& name);

 private:
  Browser() = default;

  e2e::Json Ask(const std::string& method, const std::string& path, const std::string& body = "");

  std::unique_ptr<e2e::Process> driver_;
  uint32_t port_ = 0;
  std::string session_;
};

}  // namespace ps::run
