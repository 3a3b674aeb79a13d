#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ps {

/// What a PNG is made of (RFC 2083). Nothing is packed.
struct PngParts {
  uint32_t width = 1;
  uint32_t height = 1;
  uint8_t depth = 8;
  uint8_t colour_type = 2;  // 0 grey, 2 colours, 3 palette, 4 grey with alpha, 6 colours with it
  uint8_t interlace = 0;
  /// Type and data of those before the pixels.
  std::vector<std::pair<std::string, std::string>> chunks = {};
  std::string rows;  // each with the byte of its filter in front

  /// Rows without a filter.
  void SetRows(std::string_view pixels, size_t row_bytes) {
    rows.clear();
    for (size_t at = 0; at < pixels.size(); at += row_bytes) {
      rows += '\0';
      rows += pixels.substr(at, row_bytes);
    }
  }
};

inline std::string BigEndian32(uint32_t number) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) {
    bytes += static_cast<char>(number >> shift & 0xffU);
  }
  return bytes;
}

inline std::string PngChunk(const std::string& type, const std::string& data) {
  const std::string checked = type + data;
  uint32_t crc = 0xffffffff;
  for (const char byte : checked) {
    crc ^= static_cast<uint8_t>(byte);
    for (int bit = 0; bit < 8; ++bit) {
      crc = crc >> 1U ^ (crc % 2 == 1 ? 0xedb88320U : 0U);
    }
  }
  return BigEndian32(static_cast<uint32_t>(data.size())) + checked + BigEndian32(~crc);
}

/// A zlib stream of stored blocks.
inline std::string StoredZlib(std::string_view data) {
  constexpr size_t kBlockMax = 0xffff;
  constexpr uint32_t kAdler = 65'521;
  std::string stream("\x78\x01", 2);
  uint32_t low = 1;
  uint32_t high = 0;
  for (const char byte : data) {
    low = (low + static_cast<uint8_t>(byte)) % kAdler;
    high = (high + low) % kAdler;
  }
  do {
    const std::string_view block = data.substr(0, kBlockMax);
    data.remove_prefix(block.size());
    stream += data.empty() ? '\1' : '\0';
    for (const size_t number : {block.size(), kBlockMax - block.size()}) {
      stream += static_cast<char>(number & 0xffU);
      stream += static_cast<char>(number >> 8U);
    }
    stream += block;
  } while (!data.empty());
  return stream + BigEndian32(high << 16U | low);
}

inline std::string PngBytes(const PngParts& parts) {
  std::string header = BigEndian32(parts.width) + BigEndian32(parts.height);
  header += static_cast<char>(parts.depth);
  header += static_cast<char>(parts.colour_type);
  header += std::string(2, '\0');
  header += static_cast<char>(parts.interlace);
  std::string bytes = "\x89PNG\r\n\x1a\n" + PngChunk("IHDR", header);
  for (const auto& [type, data] : parts.chunks) {
    bytes += PngChunk(type, data);
  }
  return bytes + PngChunk("IDAT", StoredZlib(parts.rows)) + PngChunk("IEND", "");
}

/// Of pixels [height, width, channels], a byte each, with 1 or 3 channels.
inline std::string PngOf(uint32_t width, uint32_t height, std::string_view pixels) {
  PngParts parts;
  parts.width = width;
  parts.height = height;
  const size_t row_bytes = pixels.size() / height;
  parts.colour_type = row_bytes == width ? 0 : 2;
  parts.SetRows(pixels, row_bytes);
  return PngBytes(parts);
}

/// The TIFF structure of EXIF with nothing but an orientation, in either byte order.
inline std::string ExifOf(uint8_t orientation, bool is_little) {
  const std::string said(1, static_cast<char>(orientation));
  return is_little ? std::string("II*\0\x08\0\0\0\1\0\x12\1\3\0\1\0\0\0", 18) + said +
                         std::string(7, '\0')
                   : std::string("MM\0*\0\0\0\x08\0\1\1\x12\0\3\0\0\0\1\0", 19) + said +
                         std::string(6, '\0');
}

}  // namespace ps
