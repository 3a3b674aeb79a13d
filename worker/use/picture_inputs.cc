#include <fmt/core.h>

#include <utility>
#include <vector>

#include "worker/data/data_file.h"
#include "worker/data/data_listing.h"
#include "worker/data/image_files.h"
#include "worker/use/input_kinds.h"

namespace ps::worker {
namespace {

using proto::DatasetFormat;

constexpr uint64_t kIdxImagesHeaderBytes = 16;

/// The images of a file that has no labels with it.
Result<LabeledImages> ReadImagesAlone(const std::string& path, LoadProgress* progress) {
  PS_ASSIGN(const ImageSetInfo info, InspectIdx(path));
  PS_ASSIGN(DataFile file, DataFile::Open(path, progress));
  std::vector<uint8_t> header(kIdxImagesHeaderBytes);
  PS_TRY(file.Read(header));
  LabeledImages images;
  images.shape = info.shape;
  PS_TRY(
      file.Append(info.count * static_cast<uint64_t>(info.shape.element_count()), &images.pixels));
  uint8_t byte = 0;
  PS_ASSIGN(const bool has_more, file.ReadByteUnlessAtEnd(&byte));
  if (has_more) {
    return file.Bad(file.offset() - 1, "more bytes than the header's images have");
  }
  images.labels.assign(info.count, 0);
  return images;
}

Status CheckClasses(const std::string& path, const std::vector<uint8_t>& labels, int64_t classes) {
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] >= classes) {
      return Status::InvalidArgument(fmt::format(
          "{}: label {} of sample {} is none of the model's {} classes",
          path,
          labels[i],
          i,
          classes));
    }
  }
  return Status::Ok();
}

Result<LabeledImages> ReadIdxInputs(const InputsWanted& wanted, bool* has_labels) {
  if (!wanted.is_folder) {
    if (wanted.needs_labels()) {
      return NoLabels(
          wanted.path, "name the folder with t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte");
    }
    return ReadImagesAlone(wanted.path, wanted.progress);
  }
  PS_ASSIGN(const std::string images, FindDataFile(wanted.path, "t10k-images-idx3-ubyte"));
  if (!wanted.needs_labels()) {
    return ReadImagesAlone(images, wanted.progress);
  }
  const Result<std::string> labels = FindDataFile(wanted.path, "t10k-labels-idx1-ubyte");
  if (labels.status().code() == StatusCode::kNotFound) {
    return NoLabels(wanted.path, "they belong into t10k-labels-idx1-ubyte");
  }
  PS_TRY(labels.status());
  *has_labels = true;
  PS_ASSIGN(LabeledImages read, ReadIdx(images, *labels, 0, wanted.progress));
  PS_TRY(CheckClasses(*labels, read.labels, wanted.card.classes));
  return read;
}

/// Labels are within, for whoever wants them.
Result<LabeledImages> ReadCifarInputs(const InputsWanted& wanted) {
  const bool is_cifar10 = wanted.card.data.format == DatasetFormat::kCifar10;
  std::string path = wanted.path;
  if (wanted.is_folder) {
    PS_ASSIGN(path, FindDataFile(wanted.path, is_cifar10 ? "test_batch.bin" : "test.bin"));
  }
  return ReadCifar(is_cifar10 ? kCifar10 : kCifar100, {&path, 1}, 0, wanted.progress);
}

}  // namespace

Result<Inputs> OpenPictures(const InputsWanted& wanted) {
  const ModelCard& card = wanted.card;
  Inputs inputs;
  const bool is_idx = card.data.format == DatasetFormat::kIdx;
  inputs.has_labels = !is_idx && wanted.needs_labels();
  PS_ASSIGN(
      LabeledImages images,
      is_idx ? ReadIdxInputs(wanted, &inputs.has_labels) : ReadCifarInputs(wanted));
  Shape padded = images.shape;
  padded.height += 2 * int64_t{card.data.pad};
  padded.width += 2 * int64_t{card.data.pad};
  if (padded != card.input) {
    return OtherShape(
        wanted.path + (card.data.pad > 0 ? fmt::format(", with data.pad {}", card.data.pad) : ""),
        padded,
        card.input);
  }
  if (static_cast<int64_t>(card.normals.size()) != card.input.channels) {
    return Status::InvalidArgument(
        "the model's description has no mean and deviation of its pictures' bytes");
  }
  inputs.count = images.count();
  inputs.samples = MakeImageSamples(std::move(images), card.normals, card.data.pad);
  return inputs;
}

}  // namespace ps::worker
