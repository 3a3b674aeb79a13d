#include "ps/crypto/md5.h"

#include <openssl/evp.h>

#include <array>

#include "ps/crypto/base64.h"

namespace ps::crypto {

std::optional<std::string> Md5Base64(std::span<const std::byte> data) {
  std::array<unsigned char, 16> digest{};
  if (EVP_Digest(data.data(), data.size(), digest.data(), nullptr, EVP_md5(), nullptr) != 1) {
    return std::nullopt;
  }
  return Base64Of(std::as_bytes(std::span(digest)));
}

}  // namespace ps::crypto
