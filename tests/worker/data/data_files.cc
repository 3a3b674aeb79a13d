#include "tests/worker/data/data_files.h"

#include <zlib.h>

#include <fstream>

#include "ps/base/check.h"

namespace ps::worker::test {
namespace {

void AppendBigEndian(uint32_t value, Bytes* bytes) {
  for (int shift = 24; shift >= 0; shift -= 8) {
    bytes->push_back(static_cast<uint8_t>(value >> shift));
  }
}

}  // namespace

std::string DataFolder::Write(const std::string& name, const Bytes& bytes) const {
  const std::string path = *this / name;
  std::ofstream file(path, std::ios::binary);
  file.write(
      reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  PS_CHECK(file.good()) << path;
  return path;
}

std::string DataFolder::WritePacked(const std::string& name, const Bytes& bytes) const {
  const std::string path = *this / name;
  gzFile file = gzopen(path.c_str(), "wb");
  PS_CHECK(file != nullptr) << path;
  const auto size = static_cast<unsigned>(bytes.size());
  PS_CHECK(size == 0 || gzwrite(file, bytes.data(), size) == static_cast<int>(size)) << path;
  PS_CHECK(gzclose(file) == Z_OK) << path;
  return path;
}

Bytes IdxImages(uint32_t count, uint32_t rows, uint32_t columns) {
  Bytes bytes;
  for (const uint32_t value : {0x803U, count, rows, columns}) {
    AppendBigEndian(value, &bytes);
  }
  for (uint32_t i = 0; i < count * rows * columns; ++i) {
    bytes.push_back(static_cast<uint8_t>(i % 251));
  }
  return bytes;
}

Bytes IdxLabels(uint32_t count, uint32_t classes) {
  Bytes bytes;
  for (const uint32_t value : {0x801U, count}) {
    AppendBigEndian(value, &bytes);
  }
  for (uint32_t i = 0; i < count; ++i) {
    bytes.push_back(static_cast<uint8_t>(i % classes));
  }
  return bytes;
}

Bytes CifarRecords(int count, int first) {
  Bytes bytes;
  for (int i = 0; i < count; ++i) {
    bytes.insert(bytes.end(), 3073, static_cast<uint8_t>((first + i) % 10));
  }
  return bytes;
}

void WriteIdxSet(const DataFolder& folder, uint32_t train_count, uint32_t test_count) {
  folder.Write("train-images-idx3-ubyte", IdxImages(train_count, 2, 3));
  folder.WritePacked("train-labels-idx1-ubyte.gz", IdxLabels(train_count, 3));
  folder.WritePacked("t10k-images-idx3-ubyte.gz", IdxImages(test_count, 2, 3));
  folder.Write("t10k-labels-idx1-ubyte", IdxLabels(test_count, 3));
}

}  // namespace ps::worker::test
