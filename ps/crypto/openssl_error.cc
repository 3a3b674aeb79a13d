#include <openssl/err.h>

#include <array>

#include "ps/crypto/openssl_types.h"

namespace ps::crypto {

std::string TakeErrors() {
  std::string text;
  while (const unsigned long error = ERR_get_error()) {
    std::array<char, 256> line{};
    const char* const reason = ERR_reason_error_string(error);
    if (reason == nullptr) {
      ERR_error_string_n(error, line.data(), line.size());
    }
    text += (text.empty() ? "" : "; ") + std::string(reason != nullptr ? reason : line.data());
  }
  return text.empty() ? "no reason given" : text;
}

}  // namespace ps::crypto
