#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "tests/codec/encodings.h"
#include "tests/kernels/on_device.h"
#include "tests/kernels/op_runner.h"

// Encodings on the backend under test, against codec::Encode: the same bytes, the same residual.

namespace ps::kernels::test {
namespace {

using codec::BitsOf;
using codec::Encoding;

/// At the edges of blocks and of what a launch does at once.
constexpr size_t kSizes[] = {
    0, 1, 2, 3, 31, 127, 128, 129, 130, 255, 256, 257, 4095, 4096, 4097, 8193, 20001};

class EncodeParity : public testing::Test {
 protected:
  /// So many rounds of the values, each with what the one before has kept.
  void Compare(
      const Encoding& encoding,
      const std::vector<float>& values,
      bool has_residual,
      int rounds,
      bool is_finite = true) {
    const std::string what = encoding.ToText() + " of " + std::to_string(values.size());
    const OnDevice<float> device_values(stream_.get(), values, 1);
    std::vector<float> residual(values.size(), 0);
    const OnDevice<float> device_residual(stream_.get(), residual, 3);
    std::vector<std::byte> bytes(encoding.SizeOf(values.size()));
    const OnDevice<std::byte> device_bytes(
        stream_.get(), std::vector<std::byte>(bytes.size() + 8, std::byte{0x5a}));
    for (int round = 0; round < rounds; ++round) {
      stream_->Encode(
          {encoding,
           device_values.data(),
           has_residual ? device_residual.data() : nullptr,
           device_bytes.data(),
           static_cast<int64_t>(values.size())});
      codec::Encode(
          encoding, values, has_residual ? std::span(residual) : std::span<float>(), bytes);
      std::vector<std::byte> got = device_bytes.Values();
      for (size_t i = bytes.size(); i < got.size(); ++i) {
        ASSERT_EQ(got[i], std::byte{0x5a}) << what << ", behind the bytes";
      }
      got.resize(bytes.size());
      if (is_finite) {
        ASSERT_EQ(got, bytes) << what << ", round " << round;
      } else {
        ExpectSame(
            codec::Decoded(encoding, got, values.size()),
            codec::Decoded(encoding, bytes, values.size()));
      }
      ASSERT_EQ(BitsOf(device_residual.Values()), BitsOf(residual)) << what;
    }
  }

  /// A NaN is one whatever its bits.
  static void ExpectSame(const std::vector<float>& a, const std::vector<float>& b) {
    for (size_t i = 0; i < a.size(); ++i) {
      ASSERT_TRUE(a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) << i;
    }
  }

  std::unique_ptr<Stream> stream_ = BackendUnderTest()->MakeStream().value();
};

TEST_F(EncodeParity, GradientsBecomeTheBytesOfTheCpu) {
  for (const Encoding& encoding : codec::AllEncodings()) {
    for (const size_t size : kSizes) {
      const std::vector<float> values = codec::GradientLike(size, size + 1);
      ASSERT_NO_FATAL_FAILURE(Compare(encoding, values, false, 1));
      ASSERT_NO_FATAL_FAILURE(Compare(encoding, values, true, 3));
    }
  }
}

/// Zeros, denormals, the largest there are, ties of all kinds.
TEST_F(EncodeParity, ValuesAtTheEndsOfTheirRangeBecomeThem) {
  std::vector<std::vector<float>> cases;
  cases.emplace_back(5000, 0.0F);
  cases.emplace_back(5000, -0.0F);
  cases.emplace_back(5000, 1e-42F);
  cases.emplace_back(5000, 0x1p-101F);
  cases.emplace_back(5000, std::numeric_limits<float>::max());
  cases.emplace_back(5000, 0.75F);
  std::vector<float> ties(9000);
  for (size_t i = 0; i < ties.size(); ++i) {
    ties[i] = 0.25F * static_cast<float>(static_cast<int>(i * 7 % 53) - 26);
  }
  cases.push_back(ties);
  for (const Encoding& encoding : codec::AllEncodings()) {
    for (const std::vector<float>& values : cases) {
      ASSERT_NO_FATAL_FAILURE(Compare(encoding, values, false, 1));
      ASSERT_NO_FATAL_FAILURE(Compare(encoding, values, true, 2));
    }
  }
}

TEST_F(EncodeParity, WhatIsNotFiniteStaysSoAndTheResidualOfItsBlockStays) {
  for (const Encoding& encoding : codec::AllEncodings()) {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), kInfinity, -kInfinity}) {
      std::vector<float> values = codec::GradientLike(9000, 5);
      for (const size_t at : {size_t{0}, size_t{300}, size_t{4500}, size_t{8999}}) {
        values[at] = bad;
      }
      ASSERT_NO_FATAL_FAILURE(Compare(encoding, values, false, 1, false));
      ASSERT_NO_FATAL_FAILURE(Compare(encoding, values, true, 2, false));
    }
  }
}

}  // namespace
}  // namespace ps::kernels::test
