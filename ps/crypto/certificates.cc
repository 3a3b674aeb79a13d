#include "ps/crypto/certificates.h"

#include <fmt/core.h>
#include <openssl/pem.h>
#include <openssl/rand.h>

#include <cstdint>
#include <utility>

#include "ps/base/check.h"
#include "ps/crypto/openssl_types.h"

namespace ps::crypto {
namespace {

constexpr long kVersion3 = 2;
/// The longest common name that X.509 allows.
constexpr size_t kNameCharsMax = 64;

KeyPtr MakeKey() {
  KeyPtr key(EVP_EC_gen("P-256"));
  PS_CHECK(key != nullptr) << "OpenSSL has no P-256: " << TakeErrors();
  return key;
}

uint64_t RandomNumber() {
  uint64_t number = 0;
  PS_CHECK(RAND_bytes(reinterpret_cast<unsigned char*>(&number), sizeof(number)) == 1)
      << "OpenSSL has no random numbers: " << TakeErrors();
  return number;
}

std::string TextOf(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return {data, static_cast<size_t>(size)};
}

std::string PemOf(X509* certificate) {
  const BioPtr bio(BIO_new(BIO_s_mem()));
  PS_CHECK(PEM_write_bio_X509(bio.get(), certificate) == 1) << TakeErrors();
  return TextOf(bio.get());
}

std::string PemOf(EVP_PKEY* key) {
  const BioPtr bio(BIO_new(BIO_s_mem()));
  PS_CHECK(PEM_write_bio_PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr) == 1)
      << TakeErrors();
  return TextOf(bio.get());
}

BioPtr BioOf(const std::string& text) {
  return BioPtr(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

void AddExtension(X509* certificate, X509* issuer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str());
  PS_CHECK(extension != nullptr) << value << ": " << TakeErrors();
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

/// All but who issued it, the extensions and the signature.
CertificatePtr Begin(const std::string& name, EVP_PKEY* key, const Validity& validity) {
  CertificatePtr certificate(X509_new());
  X509_set_version(certificate.get(), kVersion3);
  ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate.get()), RandomNumber());
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), validity.begin.count());
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), validity.end.count());
  X509_set_pubkey(certificate.get(), key);
  const std::string cut = name.substr(0, kNameCharsMax);
  PS_CHECK(
      X509_NAME_add_entry_by_txt(
          X509_get_subject_name(certificate.get()),
          "CN",
          MBSTRING_UTF8,
          reinterpret_cast<const unsigned char*>(cut.data()),
          static_cast<int>(cut.size()),
          -1,
          0) == 1)
      << TakeErrors();
  return certificate;
}

void Sign(X509* certificate, EVP_PKEY* key) {
  PS_CHECK(X509_sign(certificate, key, EVP_sha256()) > 0) << TakeErrors();
}

}  // namespace

Authority Authority::Make(const Validity& validity) {
  const KeyPtr key = MakeKey();
  // The name is how a certificate of another run is known to be one.
  const CertificatePtr certificate =
      Begin(fmt::format("spotps run {}", RandomNumber()), key.get(), validity);
  X509* const own = certificate.get();
  X509_set_issuer_name(own, X509_get_subject_name(own));
  AddExtension(own, own, NID_basic_constraints, "critical,CA:TRUE,pathlen:0");
  AddExtension(own, own, NID_key_usage, "critical,keyCertSign");
  Sign(own, key.get());
  Authority authority;
  authority.certificate_ = PemOf(own);
  authority.key_ = PemOf(key.get());
  return authority;
}

Result<Authority> Authority::Read(const std::string& pem) {
  const BioPtr certificates = BioOf(pem);
  const CertificatePtr certificate = ReadPemCertificate(certificates.get());
  const BioPtr keys = BioOf(pem);
  const KeyPtr key = ReadPemKey(keys.get());
  if (certificate == nullptr || key == nullptr ||
      X509_check_private_key(certificate.get(), key.get()) != 1) {
    return Status::Corruption(fmt::format("no certificate with its key in PEM: {}", TakeErrors()));
  }
  Authority authority;
  authority.certificate_ = PemOf(certificate.get());
  authority.key_ = PemOf(key.get());
  return authority;
}

std::string Authority::Issue(
    const std::string& name,
    const std::vector<std::string_view>& roles,
    const Validity& validity) const {
  const BioPtr own_text = BioOf(certificate_);
  const CertificatePtr own = ReadPemCertificate(own_text.get());
  const BioPtr key_text = BioOf(key_);
  const KeyPtr own_key = ReadPemKey(key_text.get());
  PS_CHECK(own != nullptr && own_key != nullptr) << TakeErrors();
  const KeyPtr key = MakeKey();
  const CertificatePtr certificate = Begin(name, key.get(), validity);
  X509_set_issuer_name(certificate.get(), X509_get_subject_name(own.get()));
  AddExtension(certificate.get(), own.get(), NID_basic_constraints, "critical,CA:FALSE");
  AddExtension(certificate.get(), own.get(), NID_key_usage, "critical,digitalSignature");
  std::string names;
  for (const std::string_view role : roles) {
    names += (names.empty() ? "URI:spotps:" : ",URI:spotps:") + std::string(role);
  }
  AddExtension(certificate.get(), own.get(), NID_subject_alt_name, names);
  Sign(certificate.get(), own_key.get());
  return PemOf(certificate.get()) + PemOf(key.get()) + certificate_;
}

}  // namespace ps::crypto
