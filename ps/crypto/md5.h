#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace ps::crypto {

/// The MD5 of some bytes (RFC 1321) in base64, as the header Content-MD5 has it: it tells damage on
/// the way, and nothing about who wrote the bytes. Nothing where libcrypto offers no MD5, as with
/// FIPS.
std::optional<std::string> Md5Base64(std::span<const std::byte> data);

/// The MD5 of bytes that come piece by piece, as tags of objects in stores have it.
class Md5 {
 public:
  Md5();
  ~Md5();
  Md5(const Md5&) = delete;
  Md5& operator=(const Md5&) = delete;

  void Add(std::span<const std::byte> bytes);

  /// 32 lower-case hex digits; once. Nothing where Md5Base64 has nothing.
  std::optional<std::string> Hex();

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

}  // namespace ps::crypto
