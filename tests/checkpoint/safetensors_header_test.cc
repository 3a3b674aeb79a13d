#include "checkpoint/model/safetensors_header.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ps::checkpoint {
namespace {

using ::testing::HasSubstr;

TensorSpec NamedSpec(std::string name, std::vector<int64_t> shape) {
  TensorSpec spec;
  spec.name = std::move(name);
  spec.shape = std::move(shape);
  return spec;
}

std::string Json(const SafetensorsHeader& header) {
  return PrintSafetensorsHeader(header).substr(8);
}

/// The header of one tensor of the name and with these values.
std::string OneTensor(
    const std::string& type, const std::string& shape, const std::string& offsets) {
  return R"({"w":{"dtype":")" + type + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets +
         "}}";
}

std::string ErrorOf(const std::string& json, uint64_t data_bytes) {
  const auto header = ParseSafetensorsHeader(json, data_bytes);
  return header.ok() ? "none" : std::string(header.status().message());
}

TEST(SafetensorsHeaderTest, WhatIsPrintedIsRead) {
  const SafetensorsHeader header = HeaderOf(
      std::vector<TensorSpec>{NamedSpec("0.conv2d.weight", {2, 1, 3, 3}), NamedSpec("b", {})},
      ElementType::kF16,
      {{"job", "a \"b\" \\ \n \xc3\xa9 \xf0\x9f\x98\x80"}, {"steps", "12"}});
  const auto back = ParseSafetensorsHeader(Json(header), header.data_bytes());
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->metadata, header.metadata);
  ASSERT_EQ(back->tensors.size(), 2U);
  EXPECT_EQ(back->tensors[0].name, "0.conv2d.weight");
  EXPECT_EQ(back->tensors[0].type, ElementType::kF16);
  EXPECT_EQ(back->tensors[0].shape, (std::vector<int64_t>{2, 1, 3, 3}));
  EXPECT_EQ(back->tensors[0].byte_count(), 36U);
  EXPECT_EQ(back->tensors[1].element_count, 1) << "a scalar";
  EXPECT_EQ(back->tensors[1].begin, 36U);
  EXPECT_EQ(back->Find("b"), &back->tensors[1]);
  EXPECT_EQ(back->Find("c"), nullptr);
}

TEST(SafetensorsHeaderTest, TheDataBeginAtAMultipleOf64Bytes) {
  for (size_t length = 0; length < 70; ++length) {
    const std::string bytes = PrintSafetensorsHeader(HeaderOf(
        std::vector<TensorSpec>{NamedSpec(std::string(length, 'x'), {1})}, ElementType::kF32, {}));
    EXPECT_EQ(bytes.size() % 64, 0U);
    EXPECT_EQ(
        static_cast<uint8_t>(bytes[0]) + 256U * static_cast<uint8_t>(bytes[1]) + 8, bytes.size());
  }
}

TEST(SafetensorsHeaderTest, TextThatIsNoUtf8IsReplaced) {
  const SafetensorsHeader header =
      HeaderOf({}, ElementType::kF32, {{"job", std::string("a\xff") + '\x01' + "\xc3"}});
  const auto back = ParseSafetensorsHeader(Json(header), 0);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->metadata.at("job"), "a\xef\xbf\xbd\x01\xef\xbf\xbd");
}

TEST(SafetensorsHeaderTest, EscapesOfOtherWritersAreRead) {
  const auto header = ParseSafetensorsHeader(
      R"({"__metadata__" : {"k":"\u00e9\ud83d\ude00\/\b\f\r\t"} , "\u0041" :
          {"data_offsets":[0,4] , "shape":[ 1 ], "dtype":"F32"} }  )",
      4);
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->metadata.at("k"), "\xc3\xa9\xf0\x9f\x98\x80/\b\f\r\t");
  EXPECT_EQ(header->tensors[0].name, "A");
}

TEST(SafetensorsHeaderTest, TensorsAreSortedAsTheyLie) {
  const auto header = ParseSafetensorsHeader(
      R"({"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]},
          "a":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]},
          "none":{"dtype":"F64","shape":[0,7],"data_offsets":[4,4]}})",
      8);
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->tensors[0].name, "a");
  EXPECT_EQ(header->tensors[1].name, "none");
  EXPECT_EQ(header->tensors[2].name, "b");
}

TEST(SafetensorsHeaderTest, WhatDoesNotFitIsNamed) {
  EXPECT_THAT(ErrorOf(OneTensor("F32", "[2]", "[0,4]"), 4), HasSubstr("tensor \"w\" of type F32"));
  EXPECT_THAT(ErrorOf(OneTensor("F32", "[1]", "[4,0]"), 4), HasSubstr("does not fill"));
  EXPECT_THAT(ErrorOf(OneTensor("F32", "[1]", "[4,8]"), 8), HasSubstr("has to begin at 0"));
  EXPECT_THAT(ErrorOf(OneTensor("F32", "[1]", "[0,4]"), 3), HasSubstr("3 bytes of data"));
  EXPECT_THAT(ErrorOf(OneTensor("F32", "[1]", "[0,4]"), 5), HasSubstr("5 bytes of data are there"));
  EXPECT_THAT(
      ErrorOf(OneTensor("F32", "[4294967296,4294967296]", "[0,0]"), 0), HasSubstr("does not fill"));
  EXPECT_THAT(ErrorOf(OneTensor("C64", "[1]", "[0,8]"), 8), HasSubstr("type C64; taken are F64"));
  EXPECT_THAT(ErrorOf(OneTensor("F32", "[1]", "[0]"), 4), HasSubstr("of two numbers"));
  EXPECT_THAT(
      ErrorOf(OneTensor("F32", "[-1]", "[0,4]"), 4), HasSubstr("\"-1\" is no whole number"));
  EXPECT_THAT(ErrorOf(OneTensor("F32", "[01]", "[0,4]"), 4), HasSubstr("begin with 0"));
  EXPECT_THAT(
      ErrorOf(OneTensor("F32", "[1.0]", "[0,4]"), 4), HasSubstr("\"1.0\" is no whole number"));
  EXPECT_THAT(
      ErrorOf(OneTensor("F32", "[99999999999999999999]", "[0,4]"), 4),
      HasSubstr("no whole number from 0 to"));
  EXPECT_THAT(ErrorOf(R"({"w":{"dtype":"F32"}})", 0), HasSubstr("needs dtype, shape"));
  EXPECT_THAT(
      ErrorOf(R"({"w":{"dtype":"F32","dtype":"F32"}})", 0), HasSubstr("\"dtype\" is given twice"));
  EXPECT_THAT(ErrorOf(R"({"__metadata__":{"a":"","a":""}})", 0), HasSubstr("\"a\" is given twice"));
  EXPECT_THAT(
      ErrorOf(R"({"__metadata__":{"a":1}})", 0), HasSubstr("expected a text in double quotes"));
  EXPECT_THAT(ErrorOf(R"({"__metadata__":{"a":"\ud800"}})", 0), HasSubstr("invalid escape"));
  EXPECT_THAT(
      ErrorOf(R"({"w":{"kind":"F32"}})", 0),
      HasSubstr("unknown field \"kind\"; allowed: dtype, shape, data_offsets"));
  EXPECT_THAT(ErrorOf("{/* */}", 0), HasSubstr("unexpected \"/\""));
  EXPECT_THAT(ErrorOf("{\"\xff\":1}", 0), HasSubstr("invalid UTF-8"));
  EXPECT_THAT(ErrorOf("{} x", 0), HasSubstr("the header:1:4: there is more after the end"));
  EXPECT_THAT(ErrorOf("[]", 0), HasSubstr("expected an object"));
  EXPECT_THAT(ErrorOf("", 0), HasSubstr("the header:1:1: the text ends too early"));
}

TEST(SafetensorsHeaderTest, TensorsThatOverlapOrAreThereTwiceAreRefused) {
  const std::string w = R"("w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
  EXPECT_THAT(
      ErrorOf("{" + w + R"(,"v":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})", 12),
      HasSubstr("tensor \"v\" is to lie at bytes 4 to 12"));
  EXPECT_THAT(ErrorOf("{" + w + "," + w + "}", 8), HasSubstr("\"w\" is given twice"));
}

TEST(SafetensorsHeaderTest, AHeaderThatIsCutAnywhereIsRefused) {
  const std::string json = OneTensor("F32", "[1]", "[0,4]");
  for (size_t size = 0; size < json.size(); ++size) {
    EXPECT_FALSE(ParseSafetensorsHeader(json.substr(0, size), 4).ok()) << size;
  }
}

}  // namespace
}  // namespace ps::checkpoint
