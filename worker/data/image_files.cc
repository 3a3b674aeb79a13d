#include "worker/data/image_files.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "worker/data/data_file.h"

namespace ps::worker {
namespace {

constexpr uint32_t kImageMagic = 0x00000803;  // unsigned bytes, three dimensions
constexpr uint32_t kLabelMagic = 0x00000801;  // unsigned bytes, one dimension

std::string Hex(uint32_t value) {
  char text[16];
  std::snprintf(text, sizeof(text), "0x%08x", value);
  return text;
}

Status ReadMagic(DataFile* file, uint32_t expected, const char* what) {
  PS_ASSIGN(const uint32_t magic, file->ReadBigEndian32());
  if (magic != expected) {
    return file->Bad(
        0, "magic " + Hex(magic) + " instead of " + Hex(expected) + ": not an IDX file of " + what);
  }
  return Status::Ok();
}

/// A dimension in [1, max].
Result<uint32_t> ReadSize(DataFile* file, uint64_t max, const char* what) {
  PS_ASSIGN(const uint32_t size, file->ReadBigEndian32());
  if (size == 0 || size > max) {
    return file->Bad(file->offset() - 4, fmt::format("{} {}; allowed is 1 to {}", size, what, max));
  }
  return size;
}

Result<ImageSetInfo> ReadImageHeader(DataFile* file) {
  PS_TRY(ReadMagic(file, kImageMagic, "images"));
  PS_ASSIGN(const uint32_t count, ReadSize(file, kImageCountMax, "images"));
  PS_ASSIGN(const uint32_t rows, ReadSize(file, kImageSideMax, "rows"));
  PS_ASSIGN(const uint32_t columns, ReadSize(file, kImageSideMax, "columns"));
  const ImageSetInfo info{.shape = {1, rows, columns}, .count = count};
  if (static_cast<uint64_t>(info.shape.element_count()) * count > kPixelBytesMax) {
    return file->Bad(
        4,
        fmt::format(
            "{} images of {} are more than {} bytes",
            count,
            info.shape.ToString(),
            kPixelBytesMax));
  }
  return info;
}

Status ExpectEnd(DataFile* file) {
  const uint64_t end = file->offset();
  uint8_t byte = 0;
  PS_ASSIGN(const bool has_more, file->ReadByteUnlessAtEnd(&byte));
  if (has_more) {
    return file->Bad(end, "the data should end here, but more follows");
  }
  return Status::Ok();
}

constexpr Shape kShape = {3, 32, 32};
constexpr size_t kPixelBytes = size_t{3} * 32 * 32;
constexpr uint64_t kRecordsMax = kPixelBytesMax / kPixelBytes;

constexpr int64_t kCoarseClasses = 20;

/// The label that was just read.
Status CheckLabel(const DataFile& file, const char* what, uint8_t label, int64_t classes) {
  return label < classes
             ? Status::Ok()
             : file.Bad(
                   file.offset() - 1,
                   fmt::format(
                       "{}{} is out of range; allowed is 0 to {}", what, label, classes - 1));
}

/// Appends the records of one file until there are `limit` samples (0: all).
Status AppendFile(
    const CifarKind& kind,
    const std::string& path,
    uint64_t limit,
    LoadProgress* progress,
    LabeledImages* images) {
  PS_ASSIGN(DataFile file, DataFile::Open(path, progress));
  std::vector<uint8_t> pixels(kPixelBytes);
  uint64_t records = 0;
  while (limit == 0 || images->count() < limit) {
    uint8_t label = 0;
    PS_ASSIGN(const bool has_label, file.ReadByteUnlessAtEnd(&label));
    if (!has_label) {
      break;
    }
    if (kind.label_bytes == 2) {
      PS_TRY(CheckLabel(file, "coarse label ", label, kCoarseClasses));
      PS_TRY(file.Read({&label, 1}));
    }
    PS_TRY(CheckLabel(file, "label ", label, kind.classes));
    if (images->count() == kRecordsMax) {
      return file.Bad(file.offset(), fmt::format("more than {} samples", kRecordsMax));
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

Result<ImageSetInfo> InspectIdx(const std::string& images_path) {
  PS_ASSIGN(DataFile file, DataFile::Open(images_path));
  return ReadImageHeader(&file);
}

Result<std::vector<uint8_t>> ReadIdxLabels(const std::string& labels_path) {
  PS_ASSIGN(DataFile file, DataFile::Open(labels_path));
  PS_TRY(ReadMagic(&file, kLabelMagic, "labels"));
  PS_ASSIGN(const uint32_t count, ReadSize(&file, kImageCountMax, "labels"));
  std::vector<uint8_t> labels;
  PS_TRY(file.Append(count, &labels));
  PS_TRY(ExpectEnd(&file));
  return labels;
}

Result<LabeledImages> ReadIdx(
    const std::string& images_path,
    const std::string& labels_path,
    uint64_t limit,
    LoadProgress* progress) {
  PS_ASSIGN(std::vector<uint8_t> labels, ReadIdxLabels(labels_path));
  PS_ASSIGN(DataFile file, DataFile::Open(images_path, progress));
  PS_ASSIGN(const ImageSetInfo info, ReadImageHeader(&file));
  if (info.count != labels.size()) {
    return file.Bad(
        4, fmt::format("{} images, but {} has {} labels", info.count, labels_path, labels.size()));
  }
  const uint64_t count = limit == 0 ? info.count : std::min<uint64_t>(limit, info.count);
  LabeledImages result;
  result.shape = info.shape;
  PS_TRY(file.Append(count * static_cast<uint64_t>(info.shape.element_count()), &result.pixels));
  if (count == info.count) {
    PS_TRY(ExpectEnd(&file));
  }
  labels.resize(count);
  result.labels = std::move(labels);
  return result;
}

Result<LabeledImages> ReadCifar(
    const CifarKind& kind,
    std::span<const std::string> paths,
    uint64_t limit,
    LoadProgress* progress) {
  LabeledImages images;
  images.shape = kShape;
  for (const std::string& path : paths) {
    PS_TRY(AppendFile(kind, path, limit, progress, &images));
  }
  return images;
}

}  // namespace ps::worker
