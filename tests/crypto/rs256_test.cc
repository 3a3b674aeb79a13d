#include "ps/crypto/rs256.h"

#include <gtest/gtest.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>

#include <memory>
#include <string>
#include <utility>

#include "ps/crypto/openssl_types.h"

namespace ps::crypto {
namespace {

std::string PemOfKey(EVP_PKEY* key) {
  const BioPtr bio(BIO_new(BIO_s_mem()));
  EXPECT_EQ(PEM_write_bio_PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr), 1);
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  return {data, static_cast<size_t>(size)};
}

TEST(Rs256Test, ASignatureIsTheKeysAndOfThatText) {
  const KeyPtr key(EVP_RSA_gen(2048));
  const std::string text = "header.claims";
  const auto signature = SignRs256(PemOfKey(key.get()), text);
  ASSERT_TRUE(signature.ok()) << signature.status();
  const auto verify = [&](const std::string& of) {
    const std::unique_ptr<EVP_MD_CTX, FreedBy<EVP_MD_CTX_free>> digest(EVP_MD_CTX_new());
    EXPECT_EQ(EVP_DigestVerifyInit(digest.get(), nullptr, EVP_sha256(), nullptr, key.get()), 1);
    return EVP_DigestVerify(
               digest.get(),
               reinterpret_cast<const unsigned char*>(signature->data()),
               signature->size(),
               reinterpret_cast<const unsigned char*>(of.data()),
               of.size()) == 1;
  };
  EXPECT_TRUE(verify(text));
  EXPECT_FALSE(verify(text + "."));
}

TEST(Rs256Test, WhatIsNoKeyIsSaidWithoutIt) {
  const KeyPtr other(EVP_EC_gen("P-256"));
  for (const std::string& pem : {std::string("hidden"), std::string(), PemOfKey(other.get())}) {
    const auto signature = SignRs256(pem, "x");
    EXPECT_EQ(signature.status().code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(signature.status().message(), "no RSA key in PEM without a password");
  }
}

}  // namespace
}  // namespace ps::crypto
