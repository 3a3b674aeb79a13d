#include "ps/json/json_writer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "ps/json/json_value.h"

namespace ps::proto {
namespace {

std::string Written(JsonForm form) {
  JsonWriter json(form);
  json.BeginObject();
  json.Field("a\"b", "x\\\n\x01");
  json.BeginList("list");
  json.Value(uint64_t{18446744073709551615U});
  json.Raw("{}");
  json.EndList();
  json.Field("minus", -3);
  json.Field("yes", true);
  json.Field("none", nullptr);
  json.BeginObject("empty");
  json.EndObject();
  json.EndObject();
  return std::move(json).Take();
}

TEST(JsonWriterTest, OneLineHasNoSpaces) {
  EXPECT_EQ(
      Written(JsonForm::kOneLine),
      R"({"a\"b":"x\\\n\u0001","list":[18446744073709551615,{}],"minus":-3,"yes":true,)"
      R"("none":null,"empty":{}})");
}

TEST(JsonWriterTest, TheIndentedFormIsForPeople) {
  EXPECT_EQ(Written(JsonForm::kIndented), R"({
  "a\"b": "x\\\n\u0001",
  "list": [
    18446744073709551615,
    {}
  ],
  "minus": -3,
  "yes": true,
  "none": null,
  "empty": {}
}
)");
}

TEST(JsonWriterTest, WhatAReaderWouldRefuseIsReplaced) {
  JsonWriter json(JsonForm::kOneLine);
  json.Value(std::string_view("a\0b\xff", 4));
  const std::string text = std::move(json).Take();
  EXPECT_EQ(
      text,
      "\"a\xef\xbf\xbd"
      "b\xef\xbf\xbd\"");
  EXPECT_TRUE(ParseJson(text, "written").ok());
}

TEST(JsonWriterTest, NumbersReadBackAsThemselves) {
  JsonWriter json(JsonForm::kOneLine);
  json.BeginList();
  json.Value(0.1F);
  json.Value(0.1);
  json.Value(100000.0);
  json.Value(1e-8);
  json.Value(std::nan(""));
  json.Value(-std::numeric_limits<float>::infinity());
  json.EndList();
  EXPECT_EQ(std::move(json).Take(), "[0.1,0.1,100000,1e-08,null,null]");
}

}  // namespace
}  // namespace ps::proto
