// libjpeg leaves by longjmp when something is wrong, and C++ objects between there and here would
// not be destroyed. So every call is made by TryJpeg, in a frame that holds only what needs no
// destructor; vectors are made between these calls.

#include "worker/data/pictures/jpeg_decoder.h"

#include <fmt/core.h>
#include <setjmp.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <string_view>

// Each needs what the one above it says, <cstdio> first.
// clang-format off
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include "worker/data/pictures/exif_orientation.h"

namespace ps::worker {
namespace {

constexpr int kExifMarker = JPEG_APP0 + 1;
constexpr unsigned kMarkerBytesMax = 0xffff;  // as long as one can be
constexpr std::string_view kExif("Exif\0\0", 6);
/// Encoders write some ten scans. Thousands of empty ones would cost hours.
constexpr int kScansMax = 500;

/// Warnings of files that are whole, and that others read without a word.
constexpr std::array<int, 5> kHarmless = {
    JWRN_ADOBE_XFORM, JWRN_BOGUS_ICC, JWRN_EXTRANEOUS_DATA, JWRN_JFIF_MAJOR, JWRN_NOT_SEQUENTIAL};

struct JpegErrors {
  jpeg_error_mgr base;  // the first: libjpeg knows its address
  jmp_buf jump;
  char message[JMSG_LENGTH_MAX];
};

[[noreturn]] void OnError(j_common_ptr info) {
  auto* const errors = reinterpret_cast<JpegErrors*>(info->err);
  info->err->format_message(info, errors->message);
  longjmp(errors->jump, 1);
}

void OnMessage(j_common_ptr info, int level) {
  if (level < 0 && std::ranges::find(kHarmless, info->err->msg_code) == kHarmless.end()) {
    OnError(info);
  }
}

void OnProgress(j_common_ptr info) {
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number > kScansMax) {
    auto* const errors = reinterpret_cast<JpegErrors*>(info->err);
    std::snprintf(errors->message, sizeof(errors->message), "more than %d scans", kScansMax);
    longjmp(errors->jump, 1);
  }
}

/// False: `step` was left by an error, and `errors` has its message. Requires: `step` holds nothing
/// that has a destructor.
template <typename Step>
bool TryJpeg(JpegErrors* errors, const Step& step) {
  if (setjmp(errors->jump) != 0) {
    return false;
  }
  step();
  return true;
}

/// CMYK as Adobe has it in JPEG, and so everybody: 255 is no ink.
std::vector<uint8_t> FromInks(const std::vector<uint8_t>& inks) {
  std::vector<uint8_t> colours;
  colours.reserve(inks.size() / 4 * 3);
  for (size_t i = 0; i + 4 <= inks.size(); i += 4) {
    for (size_t c = 0; c < 3; ++c) {
      const uint32_t product = uint32_t{inks[i + c]} * inks[i + 3] + 128;
      colours.push_back(static_cast<uint8_t>((product + (product >> 8U)) >> 8U));  // / 255, rounded
    }
  }
  return colours;
}

class JpegDecoder {
 public:
  explicit JpegDecoder(std::span<const uint8_t> bytes) : bytes_(bytes) {
    info_.err = jpeg_std_error(&errors_.base);
    errors_.base.error_exit = OnError;
    errors_.base.emit_message = OnMessage;
    progress_.progress_monitor = OnProgress;
  }

  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  ~JpegDecoder() { jpeg_destroy_decompress(&info_); }

  Result<PictureHeader> ReadHeader() {
    const bool is_read = TryJpeg(&errors_, [this] {
      jpeg_create_decompress(&info_);
      info_.progress = &progress_;
      jpeg_mem_src(&info_, bytes_.data(), static_cast<unsigned long>(bytes_.size()));
      jpeg_save_markers(&info_, kExifMarker, kMarkerBytesMax);
      jpeg_read_header(&info_, TRUE);
    });
    if (!is_read) {
      return Bad();
    }
    PictureHeader header;
    header.size = {info_.image_height, info_.image_width};
    PS_TRY(ChooseColours());
    header.is_jpeg = true;
    header.has_scans = jpeg_has_multiple_scans(&info_) != FALSE;
    header.orientation = Orientation();
    return header;
  }

  /// Requires: the header was read.
  Result<Picture> ReadPixels(uint32_t divisor) {
    info_.scale_num = 1;
    info_.scale_denom = divisor;
    info_.dct_method = JDCT_ISLOW;  // the same bits on every machine
    if (!TryJpeg(&errors_, [this] { jpeg_start_decompress(&info_); })) {
      return Bad();
    }
    Picture picture;
    picture.size = {info_.output_height, info_.output_width};
    const auto channels = static_cast<size_t>(info_.output_components);
    const size_t row_bytes = channels * picture.size.width;
    picture.pixels.resize(row_bytes * picture.size.height);
    uint8_t* const pixels = picture.pixels.data();
    const bool is_read = TryJpeg(&errors_, [this, pixels, row_bytes] {
      while (info_.output_scanline < info_.output_height) {
        JSAMPROW row = pixels + info_.output_scanline * row_bytes;
        jpeg_read_scanlines(&info_, &row, 1);
      }
      jpeg_finish_decompress(&info_);
    });
    if (!is_read) {
      return Bad();
    }
    if (info_.out_color_space == JCS_CMYK) {
      picture.pixels = FromInks(picture.pixels);
    }
    picture.channels = channels == 1 ? 1 : 3;
    return picture;
  }

 private:
  Status Bad() const {
    return Status::Corruption(fmt::format("damaged JPEG: {}", errors_.message));
  }

  Status ChooseColours() {
    switch (info_.jpeg_color_space) {
      case JCS_GRAYSCALE:
        info_.out_color_space = JCS_GRAYSCALE;
        return Status::Ok();
      case JCS_RGB:
      case JCS_YCbCr:
        info_.out_color_space = JCS_RGB;
        return Status::Ok();
      case JCS_CMYK:
      case JCS_YCCK:
        info_.out_color_space = JCS_CMYK;
        return Status::Ok();
      default:
        return Status::Unsupported(fmt::format(
            "a JPEG of {} channels; allowed: grey, RGB, YCbCr, CMYK, YCCK", info_.num_components));
    }
  }

  uint32_t Orientation() const {
    for (auto marker = info_.marker_list; marker != nullptr; marker = marker->next) {
      const std::span<const uint8_t> data(marker->data, marker->data_length);
      if (data.size() > kExif.size() && std::equal(kExif.begin(), kExif.end(), data.begin())) {
        return OrientationIn(data.subspan(kExif.size()));
      }
    }
    return 1;
  }

  std::span<const uint8_t> bytes_;
  jpeg_decompress_struct info_{};
  jpeg_progress_mgr progress_{};
  JpegErrors errors_{};
};

}  // namespace

bool IsJpeg(std::span<const uint8_t> bytes) {
  return bytes.size() >= 3 && bytes[0] == 0xff && bytes[1] == 0xd8 && bytes[2] == 0xff;
}

Result<PictureHeader> ReadJpegHeader(std::span<const uint8_t> bytes) {
  return JpegDecoder(bytes).ReadHeader();
}

Result<Picture> DecodeJpeg(std::span<const uint8_t> bytes, uint32_t divisor) {
  JpegDecoder decoder(bytes);
  PS_TRY(decoder.ReadHeader().status());
  return decoder.ReadPixels(divisor);
}

}  // namespace ps::worker
