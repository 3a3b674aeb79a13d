#include "worker/data/pictures/picture_decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/base/png_bytes.h"
#include "tests/worker/data/jpeg_bytes.h"
#include "worker/data/pictures/exif_orientation.h"

namespace ps::worker {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::span<const uint8_t> PictureSpan(const std::string& bytes) {
  return {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()};
}

Result<Picture> DecodedAs(
    uint32_t channels, const std::string& bytes, const PictureSize& least = {4096, 4096}) {
  PS_ASSIGN(const PictureHeader header, ReadPictureHeader(PictureSpan(bytes)));
  return DecodePicture(PictureSpan(bytes), header, channels, least);
}

/// Its pixels; nothing: it is an error.
std::vector<uint8_t> PixelsOf(uint32_t channels, const std::string& bytes) {
  const Result<Picture> picture = DecodedAs(channels, bytes);
  EXPECT_TRUE(picture.ok()) << picture.status();
  return picture.ok() ? picture->pixels : std::vector<uint8_t>();
}

std::string DecodingError(const std::string& bytes) {
  const Result<Picture> picture = DecodedAs(3, bytes);
  EXPECT_FALSE(picture.ok());
  const std::string error = picture.status().ToString();
  EXPECT_THAT(error, Not(HasSubstr("\n")));
  return error;
}

/// Rows of a PNG of this kind with the header that they need.
std::string PngOfKind(
    uint8_t colour_type, uint8_t depth, uint32_t width, uint32_t height, std::string_view pixels) {
  PngParts parts;
  parts.width = width;
  parts.height = height;
  parts.depth = depth;
  parts.colour_type = colour_type;
  parts.SetRows(pixels, pixels.size() / height);
  if (colour_type == 3) {
    parts.chunks = {{"PLTE", "\x01\x02\x03\x0a\x14\x1e"}, {"tRNS", std::string(1, '\0')}};
  }
  return PngBytes(parts);
}

TEST(PngTest, GreyAndColoursAreWhatTheyAre) {
  const std::string grey = PngOf(2, 1, "\x07\xc8");
  EXPECT_THAT(PixelsOf(1, grey), ElementsAre(7, 200));
  EXPECT_THAT(PixelsOf(3, grey), ElementsAre(7, 7, 7, 200, 200, 200));
  const std::string red = PngOf(1, 1, std::string("\xff\0\0", 3));
  EXPECT_THAT(PixelsOf(3, red), ElementsAre(255, 0, 0));
  EXPECT_THAT(PixelsOf(1, red), ElementsAre(76)) << "as PIL's convert(\"L\") has it";
}

TEST(PngTest, PalettesFewBitsAlphaAnd16BitsBecomeBytes) {
  EXPECT_THAT(PixelsOf(3, PngOfKind(3, 1, 2, 1, "\x40")), ElementsAre(1, 2, 3, 10, 20, 30))
      << "a transparent colour is its colour";
  EXPECT_THAT(PixelsOf(1, PngOfKind(0, 2, 4, 1, "\x1b")), ElementsAre(0, 85, 170, 255));
  EXPECT_THAT(PixelsOf(1, PngOfKind(4, 8, 1, 1, std::string("\x21\0", 2))), ElementsAre(0x21));
  EXPECT_THAT(PixelsOf(3, PngOfKind(6, 8, 1, 1, std::string("\1\2\3\0", 4))), ElementsAre(1, 2, 3));
  // 0x0081 / 257 is 0.502, 0x7fff / 257 is 127.498.
  EXPECT_THAT(
      PixelsOf(1, PngOfKind(0, 16, 4, 1, std::string("\0\x80\0\x81\x7f\xff\xff\xff", 8))),
      ElementsAre(0, 1, 127, 255));
  EXPECT_THAT(
      PixelsOf(3, PngOfKind(2, 16, 1, 1, std::string("\x10\x10\x20\x20\x30\x30", 6))),
      ElementsAre(16, 32, 48));
}

TEST(PngTest, AnInterlacedPictureIsTheSame) {
  PngParts parts;
  parts.width = 2;
  parts.height = 2;
  parts.colour_type = 0;
  parts.interlace = 1;
  // Adam7: (0, 0), then (0, 1), then the second row.
  parts.rows = std::string("\0\x01\0\x02\0\x03\x04", 7);
  EXPECT_THAT(PixelsOf(1, PngBytes(parts)), ElementsAre(1, 2, 3, 4));
}

TEST(PngTest, AFileThatIsCutOrChangedAnywhereIsAnError) {
  const std::string whole = PngOf(3, 2, "abcdefghijklmnopqr");
  ASSERT_TRUE(DecodedAs(3, whole).ok());
  for (size_t size = 0; size < whole.size(); ++size) {
    ASSERT_FALSE(DecodedAs(3, whole.substr(0, size)).ok()) << size;
  }
  EXPECT_THAT(DecodingError(whole.substr(0, 50)), HasSubstr("damaged PNG: "));
  std::string changed = whole;
  changed[whole.size() - 25] ^= 1;  // a pixel
  EXPECT_THAT(DecodingError(changed), HasSubstr("damaged PNG: IDAT"));
}

TEST(PngTest, SizesThatLieTakeNoMemory) {
  PngParts parts;
  parts.width = 100'000;
  parts.height = 100'000;
  EXPECT_THAT(
      DecodingError(PngBytes(parts)),
      AllOf(HasSubstr("100000 x 100000 pixels"), HasSubstr("up to 65535, and 134217728 pixels")));
  parts.height = 1;
  EXPECT_THAT(DecodingError(PngBytes(parts)), HasSubstr("100000 x 1 pixels; allowed: sides of"));
  parts.width = 0;
  EXPECT_THAT(DecodingError(PngBytes(parts)), HasSubstr("damaged PNG: "));
  // 300 MB are announced, and three bytes are there.
  parts.width = 10'000;
  parts.height = 10'000;
  parts.rows = "abc";
  EXPECT_THAT(DecodingError(PngBytes(parts)), HasSubstr("damaged PNG: "));
}

/// Blocks of 8 x 8 of one colour each, which a JPEG keeps nearly as they are.
std::string BlocksOf(const std::vector<std::string>& colours) {
  std::string pixels;
  for (int y = 0; y < 8; ++y) {
    for (const std::string& colour : colours) {
      for (int x = 0; x < 8; ++x) {
        pixels += colour;
      }
    }
  }
  return pixels;
}

void ExpectBlocks(const std::vector<uint8_t>& pixels, const std::vector<uint8_t>& expected) {
  const size_t blocks = 2;
  const size_t channels = expected.size() / blocks;
  ASSERT_EQ(pixels.size(), 64 * expected.size());
  for (size_t i = 0; i < pixels.size(); ++i) {
    const size_t block = i / channels / 8 % blocks;
    ASSERT_NEAR(pixels[i], expected[block * channels + i % channels], 2) << i;
  }
}

TEST(JpegTest, BaselineAndProgressiveGreyAndColoursAreRead) {
  for (const bool is_progressive : {false, true}) {
    JpegParts parts{.width = 16, .height = 8, .is_progressive = is_progressive};
    const std::string colours = JpegBytes(parts, BlocksOf({"\xff\x10\x20", "\x01\x80\xf0"}));
    ExpectBlocks(PixelsOf(3, colours), {255, 16, 32, 1, 128, 240});
    ExpectBlocks(PixelsOf(1, colours), {89, 103});
    EXPECT_EQ(ReadPictureHeader(PictureSpan(colours))->has_scans, is_progressive);
    parts.channels = 1;
    const std::string grey = JpegBytes(parts, BlocksOf({"\x30", "\xe0"}));
    ExpectBlocks(PixelsOf(1, grey), {48, 224});
    ExpectBlocks(PixelsOf(3, grey), {48, 48, 48, 224, 224, 224});
  }
}

TEST(JpegTest, InksBecomeColours) {
  JpegParts parts{.width = 16, .height = 8, .channels = 4};
  // As Adobe stores them: 255 is no ink. 128 * 128 / 255 is 64.
  const std::string inks = JpegBytes(parts, BlocksOf({"\xff\x80\x40\xff", "\x80\xff\xff\x80"}));
  ExpectBlocks(PixelsOf(3, inks), {255, 128, 64, 64, 128, 128});
}

TEST(JpegTest, AFileThatIsCutIsAnErrorAndNotGrey) {
  for (const bool is_progressive : {false, true}) {
    const JpegParts parts{.width = 16, .height = 8, .is_progressive = is_progressive};
    const std::string whole = JpegBytes(parts, BlocksOf({"\xff\x10\x20", "\x01\x80\xf0"}));
    ASSERT_TRUE(DecodedAs(3, whole).ok());
    for (size_t size = 0; size < whole.size(); ++size) {
      ASSERT_FALSE(DecodedAs(3, whole.substr(0, size)).ok()) << size;
    }
    EXPECT_THAT(
        DecodingError(whole.substr(0, whole.size() - 4)), HasSubstr("damaged JPEG: Premature end"));
    EXPECT_TRUE(DecodedAs(3, whole + "bytes of a camera").ok());
  }
}

TEST(JpegTest, WhatTheDecoderDoesNotKnowIsNamed) {
  const JpegParts parts{.width = 16, .height = 8};
  std::string bytes = JpegBytes(parts, BlocksOf({"\xff\x10\x20", "\x01\x80\xf0"}));
  const size_t frame = bytes.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  std::string deep = bytes;
  deep[frame + 4] = 12;
  EXPECT_THAT(DecodingError(deep), HasSubstr("Unsupported JPEG data precision 12"));
  std::string hierarchical = bytes;
  hierarchical[frame + 1] = '\xc5';
  EXPECT_THAT(DecodingError(hierarchical), HasSubstr("Unsupported JPEG process: SOF type 0xc5"));
  bytes.replace(frame + 5, 4, "\xff\x00\xff\x00", 4);
  EXPECT_THAT(DecodingError(bytes), AllOf(HasSubstr("65280 x 65280"), HasSubstr("allowed: ")));
}

TEST(JpegTest, ALargeOneIsUnpackedSmallerButNeverBelowTwiceItsUse) {
  const uint32_t side = 256;
  std::string pixels;
  for (uint32_t i = 0; i < side * side; ++i) {
    pixels += static_cast<char>(i % side);
  }
  const std::string bytes = JpegBytes({.width = side, .height = side, .channels = 1}, pixels);
  const auto side_for = [&](uint32_t least) {
    const Result<Picture> picture = DecodedAs(1, bytes, {least, least});
    EXPECT_TRUE(picture.ok()) << picture.status();
    return picture->size.width;
  };
  EXPECT_EQ(side_for(65), 256U);
  EXPECT_EQ(side_for(64), 128U);
  EXPECT_EQ(side_for(33), 128U);
  EXPECT_EQ(side_for(32), 64U);
  EXPECT_EQ(side_for(16), 32U);
  EXPECT_EQ(side_for(1), 32U);
  const Result<Picture> picture = DecodedAs(1, bytes, {16, 16});
  for (uint32_t x = 0; x < 32; ++x) {
    EXPECT_NEAR(picture->pixels[x], 8 * x + 3.5, 2) << "the mean of 8 columns";
  }
}

TEST(PictureDecoderTest, WhatIsNeitherIsSaidWhateverItsName) {
  EXPECT_THAT(DecodingError("GIF89a..."), HasSubstr("neither a PNG nor a JPEG"));
  EXPECT_THAT(DecodingError(""), HasSubstr("neither a PNG nor a JPEG"));
}

TEST(PictureDecoderTest, EveryOrientationIsTurnedUpright) {
  // a b c    what is stored; upright it is another one for each orientation.
  // d e f
  const std::string stored = "abcdef";
  const std::vector<std::pair<PictureSize, std::string>> upright = {
      {{2, 3}, "abcdef"},
      {{2, 3}, "cbafed"},
      {{2, 3}, "fedcba"},
      {{2, 3}, "defabc"},
      {{3, 2}, "adbecf"},
      {{3, 2}, "daebfc"},
      {{3, 2}, "fcebda"},
      {{3, 2}, "cfbead"}};
  for (uint8_t orientation = 1; orientation <= 8; ++orientation) {
    for (const bool is_little : {false, true}) {
      PngParts parts;
      parts.width = 3;
      parts.height = 2;
      parts.colour_type = 0;
      parts.SetRows(stored, 3);
      parts.chunks = {{"eXIf", ExifOf(orientation, is_little)}};
      const std::string bytes = PngBytes(parts);
      const auto& [size, pixels] = upright[orientation - 1U];
      EXPECT_EQ(ReadPictureHeader(PictureSpan(bytes))->upright(), size);
      const Result<Picture> picture = DecodedAs(1, bytes);
      ASSERT_TRUE(picture.ok()) << picture.status();
      EXPECT_EQ(picture->size, size);
      EXPECT_EQ(std::string(picture->pixels.begin(), picture->pixels.end()), pixels)
          << int{orientation};
    }
  }
}

TEST(PictureDecoderTest, AJpegIsTurnedLikewise) {
  JpegParts parts{.width = 16, .height = 8, .channels = 1, .exif = ExifOf(6, true)};
  const Result<Picture> picture = DecodedAs(1, JpegBytes(parts, BlocksOf({"\x30", "\xe0"})));
  ASSERT_TRUE(picture.ok()) << picture.status();
  EXPECT_EQ(picture->size, (PictureSize{16, 8}));
  EXPECT_NEAR(picture->pixels.front(), 48, 2);
  EXPECT_NEAR(picture->pixels.back(), 224, 2);
}

TEST(ExifTest, WhatIsDamagedOrSaysNothingIsUpright) {
  const std::string whole = ExifOf(6, true);
  EXPECT_EQ(OrientationIn(PictureSpan(whole)), 6U);
  for (size_t size = 0; size < 20; ++size) {
    EXPECT_EQ(OrientationIn(PictureSpan(whole.substr(0, size))), 1U) << size;
  }
  for (const char wrong : {'\0', '\x09', '\xff'}) {
    EXPECT_EQ(OrientationIn(PictureSpan(ExifOf(static_cast<uint8_t>(wrong), false))), 1U);
  }
  std::string far = whole;
  far.replace(4, 4, "\xff\xff\xff\xff");  // the directory lies beyond the end
  EXPECT_EQ(OrientationIn(PictureSpan(far)), 1U);
  std::string many = whole;
  many.replace(8, 2, "\xff\xff");  // entries that are not there
  EXPECT_EQ(OrientationIn(PictureSpan(many)), 6U);
  many[10] = '\x13';  // none is the orientation
  EXPECT_EQ(OrientationIn(PictureSpan(many)), 1U);
  std::string other = whole;
  other[12] = '\4';  // a number of 32 bits
  EXPECT_EQ(OrientationIn(PictureSpan(other)), 1U);
}

}  // namespace
}  // namespace ps::worker
