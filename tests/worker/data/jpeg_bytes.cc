#include "tests/worker/data/jpeg_bytes.h"

// clang-format off
#include <cstdio>
#include <jpeglib.h>  // which needs it
// clang-format on

#include <cstdlib>

namespace ps::worker {

std::string JpegBytes(const JpegParts& parts, std::string_view pixels) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);  // which ends the process
  jpeg_create_compress(&info);
  unsigned char* memory = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &memory, &size);
  info.image_width = parts.width;
  info.image_height = parts.height;
  info.input_components = parts.channels;
  info.in_color_space = parts.channels == 1   ? JCS_GRAYSCALE
                        : parts.channels == 3 ? JCS_RGB
                                              : JCS_CMYK;
  jpeg_set_defaults(&info);
  if (parts.channels == 4) {
    jpeg_set_colorspace(&info, JCS_YCCK);
  }
  jpeg_set_quality(&info, 100, TRUE);
  for (int i = 0; i < info.num_components; ++i) {
    info.comp_info[i].h_samp_factor = 1;
    info.comp_info[i].v_samp_factor = 1;
  }
  if (parts.is_progressive) {
    jpeg_simple_progression(&info);
  }
  jpeg_start_compress(&info, TRUE);
  if (!parts.exif.empty()) {
    const std::string marker = std::string("Exif\0\0", 6) + parts.exif;
    jpeg_write_marker(
        &info,
        JPEG_APP0 + 1,
        reinterpret_cast<const JOCTET*>(marker.data()),
        static_cast<unsigned>(marker.size()));
  }
  const size_t row_bytes = size_t{parts.width} * static_cast<size_t>(parts.channels);
  while (info.next_scanline < info.image_height) {
    const char* const line = pixels.data() + info.next_scanline * row_bytes;
    JSAMPROW row = const_cast<JSAMPROW>(reinterpret_cast<const JSAMPLE*>(line));  // it is only read
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  std::string bytes(reinterpret_cast<const char*>(memory), size);
  std::free(memory);
  return bytes;
}

}  // namespace ps::worker
