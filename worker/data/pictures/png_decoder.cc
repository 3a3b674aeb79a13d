// libpng leaves by longjmp when something is wrong, and C++ objects between there and here would
// not be destroyed. So every call is made by TryPng, in a frame that holds only what needs no
// destructor; vectors are made between these calls.

#include "worker/data/pictures/png_decoder.h"

#include <fmt/core.h>
#include <png.h>
#include <setjmp.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <vector>

#include "worker/data/pictures/exif_orientation.h"

namespace ps::worker {
namespace {

constexpr std::array<uint8_t, 8> kSignature = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};

struct PngErrors {
  jmp_buf jump;
  char message[128];
};

[[noreturn]] void OnError(png_structp png, png_const_charp message) {
  auto* const errors = static_cast<PngErrors*>(png_get_error_ptr(png));
  std::snprintf(errors->message, sizeof(errors->message), "%s", message);
  longjmp(errors->jump, 1);
}

/// Warnings are of chunks that tell nothing of pixels.
void OnWarning(png_structp /*png*/, png_const_charp /*message*/) {}

struct Source {
  const uint8_t* data;
  size_t left;
};

void OnRead(png_structp png, png_bytep out, size_t size) {
  auto* const source = static_cast<Source*>(png_get_io_ptr(png));
  if (source->left < size) {
    png_error(png, "the file ends too early");
  }
  std::memcpy(out, source->data, size);
  source->data += size;
  source->left -= size;
}

/// False: `step` was left by an error, and `errors` has its message. Requires: `step` holds nothing
/// that has a destructor.
template <typename Step>
bool TryPng(PngErrors* errors, const Step& step) {
  if (setjmp(errors->jump) != 0) {
    return false;
  }
  step();
  return true;
}

class PngDecoder {
 public:
  explicit PngDecoder(std::span<const uint8_t> bytes) : source_{bytes.data(), bytes.size()} {}

  PngDecoder(const PngDecoder&) = delete;
  PngDecoder& operator=(const PngDecoder&) = delete;

  ~PngDecoder() { png_destroy_read_struct(&png_, &info_, nullptr); }

  Result<PictureHeader> ReadHeader() {
    const bool is_read = TryPng(&errors_, [this] {
      png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, &errors_, OnError, OnWarning);
      if (png_ == nullptr) {
        std::snprintf(errors_.message, sizeof(errors_.message), "libpng could not begin");
        longjmp(errors_.jump, 1);
      }
      info_ = png_create_info_struct(png_);
      png_set_read_fn(png_, &source_, OnRead);
      png_set_user_limits(png_, PNG_UINT_31_MAX, PNG_UINT_31_MAX);  // ours say more
      png_read_info(png_, info_);
    });
    if (!is_read) {
      return Bad();
    }
    PictureHeader header;
    header.size = {png_get_image_height(png_, info_), png_get_image_width(png_, info_)};
    png_uint_32 exif_bytes = 0;
    png_bytep exif = nullptr;
    if (png_get_eXIf_1(png_, info_, &exif_bytes, &exif) != 0) {
      header.orientation = OrientationIn({exif, exif_bytes});
    }
    return header;
  }

  /// Requires: the header was read.
  Result<Picture> ReadPixels(const PictureSize& size) {
    const bool is_begun = TryPng(&errors_, [this] {
      png_set_scale_16(png_);
      png_set_expand(png_);  // palettes to colours, few bits to 8
      png_set_strip_alpha(png_);
      png_set_interlace_handling(png_);
      png_read_update_info(png_, info_);
    });
    if (!is_begun) {
      return Bad();
    }
    Picture picture;
    picture.size = size;
    picture.channels = png_get_channels(png_, info_);
    const size_t row_bytes = size_t{picture.channels} * size.width;
    if ((picture.channels != 1 && picture.channels != 3) ||
        png_get_rowbytes(png_, info_) != row_bytes) {
      return Status::Corruption("damaged PNG: channels of no known meaning");
    }
    picture.pixels.resize(row_bytes * size.height);
    std::vector<png_bytep> rows(size.height);
    for (size_t y = 0; y < rows.size(); ++y) {
      rows[y] = picture.pixels.data() + y * row_bytes;
    }
    png_bytepp const lines = rows.data();
    const bool is_read = TryPng(&errors_, [this, lines] {
      png_read_image(png_, lines);
      png_read_end(png_, nullptr);
    });
    if (!is_read) {
      return Bad();
    }
    return picture;
  }

 private:
  Status Bad() const { return Status::Corruption(fmt::format("damaged PNG: {}", errors_.message)); }

  Source source_;
  PngErrors errors_{};
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
};

}  // namespace

bool IsPng(std::span<const uint8_t> bytes) {
  return bytes.size() >= kSignature.size() &&
         std::memcmp(bytes.data(), kSignature.data(), kSignature.size()) == 0;
}

Result<PictureHeader> ReadPngHeader(std::span<const uint8_t> bytes) {
  return PngDecoder(bytes).ReadHeader();
}

Result<Picture> DecodePng(std::span<const uint8_t> bytes) {
  PngDecoder decoder(bytes);
  PS_ASSIGN(const PictureHeader header, decoder.ReadHeader());
  return decoder.ReadPixels(header.size);
}

}  // namespace ps::worker
