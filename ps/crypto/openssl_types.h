#pragma once

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>

namespace ps::crypto {

// OpenSSL's objects with owners.

template <auto kFree>
struct FreedBy {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};

using KeyPtr = std::unique_ptr<EVP_PKEY, FreedBy<EVP_PKEY_free>>;
using CertificatePtr = std::unique_ptr<X509, FreedBy<X509_free>>;
using BioPtr = std::unique_ptr<BIO, FreedBy<BIO_free>>;
using BioMethodPtr = std::unique_ptr<BIO_METHOD, FreedBy<BIO_meth_free>>;
using ContextPtr = std::unique_ptr<SSL_CTX, FreedBy<SSL_CTX_free>>;
using SessionPtr = std::unique_ptr<SSL, FreedBy<SSL_free>>;
using NamesPtr = std::unique_ptr<GENERAL_NAMES, FreedBy<GENERAL_NAMES_free>>;

/// The next certificate or key in PEM; null: there is none. One with a password is none: OpenSSL
/// would ask for it at the terminal.
CertificatePtr ReadPemCertificate(BIO* pem);
KeyPtr ReadPemKey(BIO* pem);

/// What OpenSSL says of its last failures on this thread, which are then forgotten.
std::string TakeErrors();

}  // namespace ps::crypto
