#include "ps/aws/xml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace ps::aws {
namespace {

using ::testing::HasSubstr;

TEST(XmlTest, ElementsAreFoundByTheirPath) {
  const auto root = ParseXml(
      "\xEF\xBB\xBF<?xml version=\"1.0\"?>\n<!-- a > b --><r xmlns=\"http://x/\"><a k='1'>"
      "<s:b>1 &lt; 2</s:b><b>3</b></a><empty/><list><item>x</item><item/></list></r>\n<!-- -->\n");
  ASSERT_TRUE(root.ok()) << root.status();
  EXPECT_EQ(root->name, "r");
  EXPECT_EQ(root->TextAt("a/b"), "1 < 2");
  EXPECT_EQ(root->TextAt("a/c"), "");
  EXPECT_EQ(root->TextAt("empty"), "");
  EXPECT_EQ(root->ChildrenAt("list").size(), 2U);
  EXPECT_EQ(root->ChildrenAt("nothing/there").size(), 0U);
}

TEST(XmlTest, WhatIsMarkedAsTextIsText) {
  EXPECT_EQ(ParseXml("<a><![CDATA[<b>&amp;]]></a>")->text, "<b>&amp;");
}

TEST(XmlTest, MistakesAreToldWithTheirPlace) {
  const std::pair<std::string, std::string> cases[] = {
      {"", "it ends too early, at byte 0"},
      {"welcome", "text outside of the first element"},
      {"<a>", "it ends too early, at byte 3"},
      {"<a", "no > after <"},
      {"<a></b>", "</b> ends nothing"},
      {"</a>", "</a> ends nothing"},
      {"<a/><b/>", "something follows the last element, at byte 4"},
      {"<a/>x", "something follows"},
      {"<!DOCTYPE a [<!ENTITY b \"c\">]><a/>", "is no element"},
      {"<>", "<> is no element"},
      {"<!-- a", "no --> after <!--"}};
  for (const auto& [text, said] : cases) {
    const auto read = ParseXml(text);
    ASSERT_FALSE(read.ok()) << text;
    EXPECT_EQ(read.status().code(), StatusCode::kCorruption);
    EXPECT_THAT(std::string(read.status().message()), HasSubstr(said)) << text;
  }
}

TEST(XmlTest, DepthAndNumberOfElementsAreLimited) {
  const auto nested = [](int depth) {
    std::string text;
    for (int i = 0; i < depth; ++i) {
      text += "<a>";
    }
    for (int i = 0; i < depth; ++i) {
      text += "</a>";
    }
    return text;
  };
  EXPECT_TRUE(ParseXml(nested(32)).ok());
  EXPECT_FALSE(ParseXml(nested(33)).ok());
  std::string wide = "<a>";
  for (int i = 0; i < 100'000; ++i) {
    wide += "<b/>";
  }
  EXPECT_THAT(std::string(ParseXml(wide + "</a>").status().message()), HasSubstr("too many"));
}

}  // namespace
}  // namespace ps::aws
