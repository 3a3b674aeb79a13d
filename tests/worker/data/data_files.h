#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tests/base/temporary_folder.h"

namespace ps::worker::test {

using Bytes = std::vector<uint8_t>;

inline Bytes BytesOf(std::string_view text) {
  return {text.begin(), text.end()};
}

class DataFolder : public TemporaryFolder {
 public:
  std::string Write(const std::string& name, const Bytes& bytes) const;
  /// As gzip.
  std::string WritePacked(const std::string& name, const Bytes& bytes) const;
};

/// An IDX file of `count` images of rows x columns; pixel i is i modulo 251.
Bytes IdxImages(uint32_t count, uint32_t rows, uint32_t columns);
/// Labels 0, 1, 2, ..., classes - 1, 0, 1, ...
Bytes IdxLabels(uint32_t count, uint32_t classes);
/// CIFAR-10 records with labels `first`, `first` + 1, ... modulo 10; all pixels are the label.
Bytes CifarRecords(int count, int first);

/// The four files of an IDX data set: 2x3 pixels, 3 classes.
void WriteIdxSet(const DataFolder& folder, uint32_t train_count, uint32_t test_count);

}  // namespace ps::worker::test
