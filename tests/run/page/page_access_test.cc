#include "run/page/page_access.h"

#include <gtest/gtest.h>

#include <string>

namespace ps::run {
namespace {

PageRequest From(const std::string& host, const std::string& key, const std::string& origin = "") {
  PageRequest request;
  request.method = "GET";
  request.host = host;
  request.origin = origin;
  request.authorization = key.empty() ? "" : "Bearer " + key;
  return request;
}

TEST(PageAccessTest, AHostIsANumberOrThisMachine) {
  for (const char* own :
       {"127.0.0.1",
        "127.0.0.1:8080",
        "10.1.2.3:80",
        "[::1]",
        "[::1]:8080",
        "[fe80::1]:1",
        "localhost",
        "localhost:9000",
        "LocalHost:9000",
        "node7:80",
        "NODE7"}) {
    EXPECT_TRUE(IsOwnHost(own, "node7")) << own;
  }
  // A name in DNS may lead anywhere, here too: 127.0.0.1.nip.io is an example.
  for (const char* foreign :
       {"",
        "example.org",
        "example.org:80",
        "127.0.0.1.nip.io",
        "localhost.example.org",
        "node7.example.org",
        "node8",
        "[::1",
        "[example]",
        "[::1]x",
        "[::1]:x",
        "127.0.0.1:x",
        "127.0.0.1:",
        "localhost@example.org",
        "127.0.0.1 example.org"}) {
    EXPECT_FALSE(IsOwnHost(foreign, "node7")) << foreign;
  }
  EXPECT_FALSE(IsOwnHost("", ""));
}

TEST(PageAccessTest, TheKeyIsWanted) {
  const PageAccess access("0123456789abcdef");
  EXPECT_EQ(access.Check(From("127.0.0.1:1", "0123456789abcdef"), true).status, 0);
  EXPECT_EQ(access.Check(From("127.0.0.1:1", ""), true).status, 401);
  EXPECT_EQ(access.Check(From("127.0.0.1:1", "0123456789abcdee"), true).status, 401);
  EXPECT_EQ(access.Check(From("127.0.0.1:1", "0123456789abcde"), true).status, 401);
  EXPECT_EQ(access.Check(From("127.0.0.1:1", "0123456789abcdef0"), true).status, 401);
  EXPECT_EQ(access.Check(From("127.0.0.1:1", ""), false).status, 0);
  PageRequest small = From("127.0.0.1:1", "");
  small.authorization = "bearer 0123456789abcdef";
  EXPECT_EQ(access.Check(small, true).status, 0);
  PageRequest basic = From("127.0.0.1:1", "");
  basic.authorization = "Basic 0123456789abcdef";
  EXPECT_EQ(access.Check(basic, true).status, 401);
  EXPECT_NE(access.Check(From("127.0.0.1:1", ""), true).text.find("psctl page"), std::string::npos);
}

TEST(PageAccessTest, OtherOriginsAreTurnedAwayAndOtherNamesWithoutTheKey) {
  const PageAccess access("k");
  EXPECT_EQ(access.Check(From("example.org", "j"), true).status, 421);
  EXPECT_EQ(access.Check(From("gpu1.corp.example:80", "k"), true).status, 0)
      << "who leads names here has no key";
  EXPECT_EQ(access.Check(From("example.org", ""), false).status, 421);
  EXPECT_EQ(access.Check(From("127.0.0.1:1", "k", "http://127.0.0.1:1"), true).status, 0);
  EXPECT_EQ(access.Check(From("127.0.0.1:1", "k", "http://127.0.0.1:2"), true).status, 403);
  EXPECT_EQ(access.Check(From("127.0.0.1:1", "k", "https://example.org"), true).status, 403);
  EXPECT_EQ(access.Check(From("127.0.0.1:1", "k", "null"), true).status, 403);
}

TEST(PageAccessTest, ALinkLeadsSomewhere) {
  EXPECT_EQ(PageLink({"127.0.0.1", 80}, "k"), "http://127.0.0.1:80/#k");
  EXPECT_EQ(PageLink({"0.0.0.0", 80}, "k"), "http://127.0.0.1:80/#k");
  EXPECT_EQ(PageLink({"::", 80}, "k"), "http://[::1]:80/#k");
  EXPECT_EQ(PageLink({"10.0.0.7", 80}, "k"), "http://10.0.0.7:80/#k");
}

}  // namespace
}  // namespace ps::run
