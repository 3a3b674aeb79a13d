#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "ps/base/status.h"

namespace ps::crypto {

/// What the holder of a certificate may be in a run.
inline constexpr std::string_view kCoordinatorRole = "coordinator";
inline constexpr std::string_view kServerRole = "server";
inline constexpr std::string_view kWorkerRole = "worker";

/// When a certificate is good, from now on. It ends long after any run: what it opens is this run
/// alone, and ends with it.
struct Validity {
  std::chrono::seconds begin = -std::chrono::hours(24);  // other machines' time may be behind
  std::chrono::seconds end = std::chrono::hours(366 * 24);
};

/// Makes the certificates of one run: a certificate and a key (ECDSA, P-256) that sign those of its
/// processes. A value; its text is a secret.
class Authority {
 public:
  static Authority Make(const Validity& validity = {});
  /// What `pem()` gave. Errors: kCorruption.
  static Result<Authority> Read(const std::string& pem);

  /// Certificate and key.
  std::string pem() const { return certificate_ + key_; }

  /// For TlsContext::Make, and a secret: a new key, its certificate, and the authority's. `name` is
  /// for people who look at it.
  std::string Issue(
      const std::string& name,
      const std::vector<std::string_view>& roles,
      const Validity& validity = {}) const;

 private:
  std::string certificate_;
  std::string key_;
};

}  // namespace ps::crypto
