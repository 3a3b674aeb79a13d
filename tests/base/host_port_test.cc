#include "ps/base/host_port.h"

#include <gtest/gtest.h>

namespace ps {
namespace {

TEST(HostPortTest, AcceptsNamesAndBothAddressFamilies) {
  EXPECT_EQ(ParseHostPort("127.0.0.1:80")->host, "127.0.0.1");
  EXPECT_EQ(ParseHostPort("[::1]:65535")->host, "::1");
  EXPECT_EQ(ParseHostPort("node-7:1")->port, 1U);
  for (const char* bad :
       {"",
        "host",
        "host:",
        ":80",
        "host:0",
        "host:65536",
        "host:8x",
        "[[h]]:80",
        "[]:80",
        "[h:80"}) {
    EXPECT_FALSE(ParseHostPort(bad).ok()) << bad;
  }
}

TEST(HostPortTest, WhatIsPrintedIsParsedBack) {
  EXPECT_EQ(FormatHostPort("127.0.0.1", 80), "127.0.0.1:80");
  EXPECT_EQ(FormatHostPort("::1", 80), "[::1]:80");
  EXPECT_EQ(ParseHostPort(FormatHostPort("fe80::1", 4711))->host, "fe80::1");
}

TEST(HostPortTest, AnAddressThatIsEveryAddressIsNeverAdvertised) {
  EXPECT_EQ(ReachableHost("0.0.0.0", "", "127.0.0.1"), "127.0.0.1");
  EXPECT_EQ(ReachableHost("::", "", "::1"), "::1");
  EXPECT_EQ(ReachableHost("0.0.0.0", "10.0.0.7", "127.0.0.1"), "10.0.0.7");
  EXPECT_EQ(ReachableHost("10.0.0.7", "", "127.0.0.1"), "10.0.0.7");
}

TEST(HostPortTest, LoopbackIsTheMachineItself) {
  for (const char* host : {"127.0.0.1", "127.1.2.3", "::1", "localhost"}) {
    EXPECT_TRUE(IsLoopback(host)) << host;
  }
  for (const char* host : {"10.0.0.1", "0.0.0.0", "localhost.example", "1270.0.0.1"}) {
    EXPECT_FALSE(IsLoopback(host)) << host;
  }
}

}  // namespace
}  // namespace ps
