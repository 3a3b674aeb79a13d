#include "ps/crypto/rs256.h"

#include "ps/crypto/openssl_types.h"

namespace ps::crypto {
namespace {

using DigestPtr = std::unique_ptr<EVP_MD_CTX, FreedBy<EVP_MD_CTX_free>>;

}  // namespace

Result<std::string> SignRs256(const std::string& private_key_pem, std::string_view text) {
  const BioPtr bio(
      BIO_new_mem_buf(private_key_pem.data(), static_cast<int>(private_key_pem.size())));
  const KeyPtr key = ReadPemKey(bio.get());
  if (key == nullptr || EVP_PKEY_base_id(key.get()) != EVP_PKEY_RSA) {
    TakeErrors();
    return Status::InvalidArgument("no RSA key in PEM without a password");
  }
  const DigestPtr digest(EVP_MD_CTX_new());
  std::string signature(static_cast<size_t>(EVP_PKEY_size(key.get())), '\0');
  size_t size = signature.size();
  const bool is_signed =
      EVP_DigestSignInit(digest.get(), nullptr, EVP_sha256(), nullptr, key.get()) == 1 &&
      EVP_DigestSign(
          digest.get(),
          reinterpret_cast<unsigned char*>(signature.data()),
          &size,
          reinterpret_cast<const unsigned char*>(text.data()),
          text.size()) == 1;
  if (!is_signed) {
    return Status::InvalidArgument("OpenSSL does not sign with this key: " + TakeErrors());
  }
  signature.resize(size);
  return signature;
}

}  // namespace ps::crypto
