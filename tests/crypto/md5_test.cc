#include "ps/crypto/md5.h"

#include <gtest/gtest.h>

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace ps::crypto {
namespace {

std::optional<std::string> DigestOf(std::string_view text) {
  return Md5Base64(std::as_bytes(std::span(text)));
}

TEST(Md5Test, TheStandardsExamplesHaveTheirDigests) {
  if (!DigestOf("")) {
    GTEST_SKIP() << "libcrypto offers no MD5 here";
  }
  EXPECT_EQ(DigestOf(""), "1B2M2Y8AsgTpgAmY7PhCfg==");
  EXPECT_EQ(DigestOf("abc"), "kAFQmDzST7DWlj99KOF/cg==");
}

}  // namespace
}  // namespace ps::crypto
