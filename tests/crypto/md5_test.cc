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

}  // namespace
}  // namespace ps::crypto
