#include "ps/crypto/base64.h"

#include <openssl/evp.h>

#include <algorithm>

namespace ps::crypto {

std::string Base64Of(std::span<const std::byte> data) {
  // EVP_EncodeBlock ends its text with a zero.
  std::string text((data.size() + 2) / 3 * 4 + 1, '\0');
  const int size = EVP_EncodeBlock(
      reinterpret_cast<unsigned char*>(text.data()),
      reinterpret_cast<const unsigned char*>(data.data()),
      static_cast<int>(data.size()));
  text.resize(static_cast<size_t>(size));
  return text;
}

std::string Base64UrlOf(std::span<const std::byte> data) {
  std::string text = Base64Of(data);
  text.resize(std::min(text.find('='), text.size()));
  std::replace(text.begin(), text.end(), '+', '-');
  std::replace(text.begin(), text.end(), '/', '_');
  return text;
}

}  // namespace ps::crypto
