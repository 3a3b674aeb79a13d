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

struct Md5::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  bool is_right = context != nullptr && EVP_DigestInit_ex(context, EVP_md5(), nullptr) == 1;

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  ~State() { EVP_MD_CTX_free(context); }
};

Md5::Md5() : state_(std::make_unique<State>()) {}

Md5::~Md5() = default;

void Md5::Add(std::span<const std::byte> bytes) {
  state_->is_right =
      state_->is_right && EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) == 1;
}

std::optional<std::string> Md5::Hex() {
  std::array<unsigned char, 16> digest{};
  if (!state_->is_right || EVP_DigestFinal_ex(state_->context, digest.data(), nullptr) != 1) {
    return std::nullopt;
  }
  std::string hex;
  for (const unsigned char byte : digest) {
    constexpr char kDigits[] = "0123456789abcdef";
    hex.push_back(kDigits[byte >> 4]);
    hex.push_back(kDigits[byte & 15]);
  }
  return hex;
}

}  // namespace ps::crypto
