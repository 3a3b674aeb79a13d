#include <string>
#include <string_view>
#include <vector>

#include "ps/base/check.h"
#include "tests/fuzz/targets.h"
#include "worker/data/pictures/jpeg_decoder.h"
#include "worker/data/pictures/picture_decoder.h"
#include "worker/data/pictures/picture_resize.h"
#include "worker/data/pictures/png_decoder.h"

namespace ps::fuzz {
namespace {

/// Larger ones cost time and find nothing more.
constexpr uint64_t kFuzzedPixelsMax = uint64_t{1} << 16;

/// A damaged picture is one line of error; what is taken has the size that its header says,
/// upright, and can be resized. The first byte says in how many channels and to which size.
bool CheckPicture(std::span<const uint8_t> input, bool (*is_kind)(std::span<const uint8_t>)) {
  if (input.empty() || !is_kind(input.subspan(1))) {
    return false;
  }
  const uint32_t channels = (input[0] & 1) != 0 ? 1 : 3;
  const uint32_t side = 1 + (input[0] >> 1 & 7);
  const worker::PictureSize least = {side, 9 - side};
  const auto check_error = [](const Status& why) {
    const bool is_known =
        why.code() == StatusCode::kCorruption || why.code() == StatusCode::kUnsupported;
    PS_CHECK(is_known && why.message().find('\n') == std::string_view::npos) << why;
  };
  const auto header = worker::ReadPictureHeader(input.subspan(1));
  if (!header.ok()) {
    check_error(header.status());
    return false;
  }
  const uint64_t pixels = uint64_t{header->size.height} * header->size.width;
  PS_CHECK(pixels > 0 && pixels <= worker::kPicturePixelsMax);
  if (pixels > kFuzzedPixelsMax) {
    return false;
  }
  const auto picture = worker::DecodePicture(input.subspan(1), *header, channels, least);
  if (!picture.ok()) {
    check_error(picture.status());
    return false;
  }
  PS_CHECK(picture->channels == channels);
  PS_CHECK(picture->size == header->upright() || header->is_jpeg);
  PS_CHECK(picture->pixels.size() == size_t{channels} * picture->size.height * picture->size.width);
  std::vector<uint8_t> planes(size_t{channels} * least.height * least.width);
  worker::ResizeAndCrop(*picture, least, planes);
  return true;
}

}  // namespace

bool FuzzPng(std::span<const uint8_t> input) {
  return CheckPicture(input, worker::IsPng);
}

bool FuzzJpeg(std::span<const uint8_t> input) {
  return CheckPicture(input, worker::IsJpeg);
}

}  // namespace ps::fuzz
