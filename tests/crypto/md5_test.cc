#include "ps/crypto/md5.h"

#include <gtest/gtest.h>

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace ps::crypto {
namespace {

std::optional<std::string> Md5Of(std::string_view text) {
  return Md5Base64(std::as_bytes(std::span(text)));
}

TEST(Md5Test, TheStandardsExamplesHaveTheirDigests) {
  if (!Md5Of("")) {
    GTEST_SKIP() << "libcrypto offers no MD5 here";
  }
  EXPECT_EQ(Md5Of(""), "1B2M2Y8AsgTpgAmY7PhCfg==");
  EXPECT_EQ(Md5Of("abc"), "kAFQmDzST7DWlj99KOF/cg==");
}

TEST(Md5Test, PiecesHaveTheDigestOfTheWhole) {
  if (!Md5Of("")) {
    GTEST_SKIP() << "this libcrypto has no MD5";
  }
  Md5 digest;
  for (const std::string_view piece : {"", "mess", "age di", "gest"}) {
    digest.Add(std::as_bytes(std::span(piece)));
  }
  EXPECT_EQ(digest.Hex(), "f96b697d7cb7938d525a2f31aaf161d0");  // RFC 1321, A.5
  EXPECT_EQ(Md5().Hex(), "d41d8cd98f00b204e9800998ecf8427e");
}

}  // namespace
}  // namespace ps::crypto
