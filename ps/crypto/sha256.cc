#include "ps/crypto/sha256.h"

#include <openssl/evp.h>

#include "ps/base/check.h"

namespace ps::crypto {

Sha256 Sha256Of(std::span<const std::byte> data) {
  Sha256 digest;
  auto* const out = reinterpret_cast<unsigned char*>(digest.bytes.data());
  PS_CHECK(EVP_Digest(data.data(), data.size(), out, nullptr, EVP_sha256(), nullptr) == 1)
      << "libcrypto has no SHA-256";
  return digest;
}

std::string HexOf(const Sha256& digest) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(2 * digest.bytes.size());
  for (const std::byte byte : digest.bytes) {
    text.push_back(kDigits[std::to_integer<size_t>(byte >> 4)]);
    text.push_back(kDigits[std::to_integer<size_t>(byte & std::byte{15})]);
  }
  return text;
}

}  // namespace ps::crypto
