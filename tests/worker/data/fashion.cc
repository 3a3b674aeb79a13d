#include "tests/worker/data/fashion.h"

#include <algorithm>
#include <filesystem>
#include <string>

namespace ps::worker::test {

bool HasFashion() {
  return std::filesystem::exists(kFashion);
}

LabeledImages ShrunkFashion(int64_t shrink, uint64_t count) {
  const std::string path = std::string(kFashion) + "/train-";
  LabeledImages images =
      ReadIdx(path + "images-idx3-ubyte.gz", path + "labels-idx1-ubyte.gz", count).value();
  const int64_t side = 32 / shrink;
  std::vector<uint8_t> pixels;
  for (int64_t i = 0; i < static_cast<int64_t>(count); ++i) {
    for (int64_t at = 0; at < side * side; ++at) {
      int64_t sum = 0;
      for (int64_t k = 0; k < shrink * shrink; ++k) {
        const int64_t y = at / side * shrink + k / shrink - 2;
        const int64_t x = at % side * shrink + k % shrink - 2;
        const bool is_inside = y >= 0 && y < 28 && x >= 0 && x < 28;
        sum += is_inside ? images.pixels[static_cast<size_t>(i * 784 + y * 28 + x)] : 0;
      }
      pixels.push_back(static_cast<uint8_t>(sum / (shrink * shrink)));
    }
  }
  images.pixels = std::move(pixels);
  images.shape = {1, side, side};
  return images;
}

void WriteFashion(const DataFolder& folder, int64_t shrink, uint64_t count) {
  const LabeledImages images = ShrunkFashion(shrink, count);
  const auto side = static_cast<uint32_t>(images.shape.height);
  Bytes pixels = IdxImages(static_cast<uint32_t>(count), side, side);
  Bytes labels = IdxLabels(static_cast<uint32_t>(count), 10);
  // Behind the headers.
  std::copy_backward(images.pixels.begin(), images.pixels.end(), pixels.end());
  std::copy_backward(images.labels.begin(), images.labels.end(), labels.end());
  for (const std::string which : {"train", "t10k"}) {
    folder.Write(which + "-images-idx3-ubyte", pixels);
    folder.Write(which + "-labels-idx1-ubyte", labels);
  }
}

void WriteFashionAsCifar(const DataFolder& folder, uint64_t count) {
  const LabeledImages images = ShrunkFashion(1, count);
  const auto size = static_cast<std::ptrdiff_t>(images.shape.element_count());
  Bytes records;
  for (size_t i = 0; i < images.labels.size(); ++i) {
    records.push_back(images.labels[i]);
    const auto picture = images.pixels.begin() + static_cast<std::ptrdiff_t>(i) * size;
    for (int colour = 0; colour < 3; ++colour) {
      records.insert(records.end(), picture, picture + size);
    }
  }
  for (const std::string which :
       {"data_batch_1",
        "data_batch_2",
        "data_batch_3",
        "data_batch_4",
        "data_batch_5",
        "test_batch"}) {
    folder.Write(which + ".bin", records);
  }
}

}  // namespace ps::worker::test
