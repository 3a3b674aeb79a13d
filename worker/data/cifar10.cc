#include "worker/data/cifar10.h"

#include <vector>

#include "worker/data/data_file.h"

namespace ps::worker {
namespace {

constexpr Shape kShape = {3, 32, 32};
constexpr size_t kPixelBytes = size_t{3} * 32 * 32;
constexpr uint64_t kRecordsMax = kPixelBytesMax / kPixelBytes;

/// Appends the records of one file until there are `limit` samples (0: all).
Status AppendFile(const std::string& path, uint64_t limit, LabeledImages* images) {
  PS_ASSIGN(DataFile file, DataFile::Open(path));
  std::vector<uint8_t> pixels(kPixelBytes);
  uint64_t records = 0;
  while (limit == 0 || images->count() < limit) {
    uint8_t label = 0;
    PS_ASSIGN(const bool has_label, file.ReadByteUnlessAtEnd(&label));
    if (!has_label) {
      break;
    }
    if (label >= kCifar10Classes) {
      return file.Bad(
          file.offset() - 1,
          "label " + std::to_string(label) + " is out of range; allowed is 0 to 9");
    }
    if (images->count() == kRecordsMax) {
      return file.Bad(file.offset(), "more than " + std::to_string(kRecordsMax) + " samples");
    }
    PS_TRY(file.Read(pixels));
    images->pixels.insert(images->pixels.end(), pixels.begin(), pixels.end());
    images->labels.push_back(label);
    ++records;
  }
  if (records == 0 && (limit == 0 || images->count() < limit)) {
    return file.Bad(0, "the file is empty");
  }
  return Status::Ok();
}

}  // namespace

Result<LabeledImages> ReadCifar10(std::span<const std::string> paths, uint64_t limit) {
  LabeledImages images;
  images.shape = kShape;
  for (const std::string& path : paths) {
    PS_TRY(AppendFile(path, limit, &images));
  }
  return images;
}

}  // namespace ps::worker
