#include "ps/crypto/md5.h"

#include <openssl/evp.h>

#include <array>

namespace ps::crypto {

std::optional<std::string> Md5Base64(std::span<const std::byte> data) {
  std::array<unsigned char, 16> digest{};
  if (EVP_Digest(data.data(), data.size(), digest.data(), nullptr, EVP_md5(), nullptr) != 1) {
    return std::nullopt;
  }
  std::array<unsigned char, 25> text{};  // 24 characters and the end
  const int size = EVP_EncodeBlock(text.data(), digest.data(), static_cast<int>(digest.size()));
  return std::string(text.begin(), text.begin() + size);
}

}  // namespace ps::crypto
