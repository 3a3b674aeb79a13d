#include "ps/crypto/worker_token.h"

#include <fmt/core.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <array>
#include <charconv>
#include <cstdint>

#include "ps/base/check.h"
#include "ps/crypto/sha256.h"

namespace ps::crypto {
namespace {

/// The signature of the text before it.
std::string SignatureOf(std::string_view run_token, std::string_view text) {
  Sha256 code;
  unsigned int size = 0;
  const auto* const made = HMAC(
      EVP_sha256(),
      run_token.data(),
      static_cast<int>(run_token.size()),
      reinterpret_cast<const unsigned char*>(text.data()),
      text.size(),
      reinterpret_cast<unsigned char*>(code.bytes.data()),
      &size);
  PS_CHECK(made != nullptr && size == code.bytes.size()) << "OpenSSL has no HMAC-SHA256";
  return HexOf(code);
}

}  // namespace

std::string MakeWorkerToken(std::string_view run_token, WorkerId seat) {
  uint64_t launch = 0;
  PS_CHECK(RAND_bytes(reinterpret_cast<unsigned char*>(&launch), sizeof(launch)) == 1)
      << "OpenSSL has no random numbers";
  const std::string text = fmt::format("w{}.{:016x}", seat.value, launch);
  return text + "." + SignatureOf(run_token, text);
}

std::optional<WorkerId> SeatOfToken(std::string_view token) {
  if (!token.starts_with('w')) {
    return std::nullopt;
  }
  uint32_t seat = 0;
  const auto [end, error] = std::from_chars(token.data() + 1, token.data() + token.size(), seat);
  const bool is_whole = error == std::errc() && end != token.data() + token.size() && *end == '.';
  return is_whole ? std::optional(WorkerId(seat)) : std::nullopt;
}

std::optional<WorkerId> CheckWorkerToken(std::string_view run_token, std::string_view token) {
  const size_t dot = token.rfind('.');
  const std::optional<WorkerId> seat = SeatOfToken(token);
  const bool is_signed =
      seat && dot != std::string_view::npos && !run_token.empty() &&
      EqualInConstantTime(SignatureOf(run_token, token.substr(0, dot)), token.substr(dot + 1));
  return is_signed ? seat : std::nullopt;
}

bool EqualInConstantTime(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace ps::crypto
