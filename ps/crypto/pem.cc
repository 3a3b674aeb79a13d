#include <openssl/pem.h>

#include "ps/crypto/openssl_types.h"

namespace ps::crypto {
namespace {

int NoPassword(char* /*buffer*/, int /*size*/, int /*is_writing*/, void* /*context*/) {
  return -1;
}

}  // namespace

CertificatePtr ReadPemCertificate(BIO* pem) {
  return CertificatePtr(PEM_read_bio_X509(pem, nullptr, &NoPassword, nullptr));
}

KeyPtr ReadPemKey(BIO* pem) {
  return KeyPtr(PEM_read_bio_PrivateKey(pem, nullptr, &NoPassword, nullptr));
}

}  // namespace ps::crypto
