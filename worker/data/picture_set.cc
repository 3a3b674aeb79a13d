#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ps/base/crc32c.h"
#include "ps/base/text.h"
#include "worker/data/data_listing.h"
#include "worker/data/image_files.h"
#include "worker/data/npy/npy_file.h"
#include "worker/data/npy/npy_writer.h"
#include "worker/data/pictures/picture_folders.h"
#include "worker/data/pictures/picture_reader.h"
#include "worker/data/samples.h"
#include "worker/data/set_cache.h"
#include "worker/data/validation.h"

namespace ps::worker {
namespace {

/// The files in use, and what becomes of each.
struct Listed {
  LabeledPaths train;
  LabeledPaths test;
  LabeledPaths validation;
  PictureSize size;
  DatasetInfo info;

  std::vector<std::string> AllPaths() const {
    std::vector<std::string> all;
    for (const LabeledPaths* const part : {&train, &test, &validation}) {
      all.insert(all.end(), part->paths.begin(), part->paths.end());
    }
    return all;
  }
};

/// The size that the config says, one side for both; nothing of it: the one that all pictures have.
Result<PictureSize> SizeOf(
    const proto::PictureConfig& config, const Listed& listed, LoadProgress* progress) {
  if (config.height > 0 || config.width > 0) {
    return PictureSize{
        config.height > 0 ? config.height : config.width,
        config.width > 0 ? config.width : config.height};
  }
  PS_ASSIGN(const PictureSize size, CommonSize(listed.AllPaths(), progress));
  if (std::max(size.height, size.width) > kImageSideMax) {
    return Status::InvalidArgument(fmt::format(
        "data.picture is missing, and the pictures have {} x {} pixels; allowed: sides of up to {}",
        size.width,
        size.height,
        kImageSideMax));
  }
  return size;
}

/// All of them are in memory.
Status CheckMemory(const DatasetInfo& info) {
  const uint64_t count = info.train_count + info.test_count + info.validation_count;
  const auto picture = static_cast<uint64_t>(info.shape.element_count());
  if (count <= kPixelBytesMax / picture) {
    return Status::Ok();
  }
  const auto channels = static_cast<uint64_t>(info.shape.channels);
  const auto side =
      static_cast<uint64_t>(std::sqrt(static_cast<double>(kPixelBytesMax / (count * channels))));
  return Status::InvalidArgument(fmt::format(
      "data.picture makes {} of {} {} in memory; allowed: {}, which is a height and width of up to "
      "{} with all of them, or {} of this size (data.train_samples)",
      Plural(count, "picture"),
      info.shape.ToString(),
      FormatBytes(count * picture),
      FormatBytes(kPixelBytesMax),
      side,
      FormatCount(kPixelBytesMax / picture)));
}

Result<Listed> List(const proto::DataConfig& config, LoadProgress* progress) {
  PS_ASSIGN(
      PictureListing listing,
      ListPictureFolders(
          config.directory, static_cast<double>(config.test_share), config.validation));
  Listed listed;
  DatasetInfo& info = listed.info;
  PS_TRY(ApplyLimits(config, listing.train.count(), listing.test.count(), &info));
  listed.train = std::move(listing.train);
  listed.train.KeepFirst(info.train_count);
  listed.test = std::move(listing.test);
  listed.test.KeepFirst(info.test_count);
  info.validation_count = listing.validation.count();
  listed.validation = std::move(listing.validation);
  PS_ASSIGN(listed.size, SizeOf(config.picture, listed, progress));
  info.shape = {config.picture.channels, listed.size.height, listed.size.width};
  info.classes = static_cast<int64_t>(listing.class_names.size());
  info.class_names = std::move(listing.class_names);
  info.left_out = std::move(listing.left_out);
  PS_TRY(CheckMemory(info));
  return listed;
}

template <typename T>
uint32_t CrcOf(const std::vector<T>& values, uint32_t previous = 0) {
  return Crc32c(std::as_bytes(std::span(values)), previous);
}

/// The numbers of classes mean what their names say.
uint32_t CrcOfNames(const std::vector<std::string>& names) {
  uint32_t crc = 0;
  for (const std::string& name : names) {
    crc = Crc32c(std::as_bytes(std::span(name.c_str(), name.size() + 1)), crc);
  }
  return crc;
}

/// What is made of some files.
struct Prepared {
  SharedArray<uint8_t> pixels;  // [n, c, h, w]
  uint32_t files_crc = 0;       // of the files as they are
};

struct PreparedSets {
  Prepared train;
  Prepared test;
  Prepared validation;  // empty without pictures for it
  std::string note;
};

/// A part of the set, and what the cache calls it.
struct Part {
  const char* name;
  const LabeledPaths* files;
  Prepared* made;
};

/// `path` and an ending. `picture`: the bytes of one.
Status WritePictures(const std::string& path, uint64_t picture, const PictureBytes& bytes) {
  PS_TRY(WriteNpy(
      path + "-pixels.npy", ElementType::kU8, picture, std::as_bytes(std::span(bytes.pixels))));
  return WriteNpy(path + "-sums.npy", ElementType::kU32, 0, std::as_bytes(std::span(bytes.crcs)));
}

/// As WritePictures has written them, of so many files.
Result<Prepared> OpenPictures(const std::string& path, uint64_t picture, uint64_t count) {
  PS_ASSIGN(NpyFile file, NpyFile::Open(path + "-pixels.npy"));
  PS_ASSIGN(const NpyFile sums, NpyFile::Open(path + "-sums.npy"));
  if (file.type() != ElementType::kU8 || file.rows() != count || file.row_size() != picture ||
      sums.type() != ElementType::kU32 || sums.rows() != count || sums.row_size() != 1) {
    return Status::Corruption(fmt::format("{}: byte 0: it is of other pictures", file.path()));
  }
  auto kept = std::make_shared<const NpyFile>(std::move(file));
  const std::span<const uint8_t> pixels = kept->data();
  return Prepared{
      SharedArray<uint8_t>(std::move(kept), pixels), Crc32c(std::as_bytes(sums.data()))};
}

/// The pictures of the files, decoded or found in the cache.
Result<PreparedSets> Prepare(
    const proto::DataConfig& config, const Listed& listed, LoadProgress* progress) {
  const auto picture = static_cast<uint64_t>(listed.info.shape.element_count());
  PreparedSets sets;
  std::vector<Part> parts = {
      {"/train", &listed.train, &sets.train}, {"/test", &listed.test, &sets.test}};
  if (!config.validation.empty()) {
    parts.push_back({"/validation", &listed.validation, &sets.validation});
  }
  const auto read = [&](const LabeledPaths& files) {
    for (const std::string& path : files.paths) {
      progress->Expect(StoredBytes(path));
    }
    return ReadPictures(files.paths, config.picture.channels, listed.size, progress);
  };
  const auto make = [&](const std::string& folder) -> Status {
    for (const Part& part : parts) {
      PS_ASSIGN(const PictureBytes bytes, read(*part.files));
      PS_TRY(OfCache(WritePictures(folder + part.name, picture, bytes)));
    }
    return Status::Ok();
  };
  const auto open = [&](const std::string& folder) -> Status {
    for (const Part& part : parts) {
      PS_ASSIGN(*part.made, OpenPictures(folder + part.name, picture, part.files->count()));
    }
    return Status::Ok();
  };
  std::string what = fmt::format(
      "pictures of {}, {} and {} of {}",
      listed.info.shape.ToString(),
      listed.train.count(),
      listed.test.count(),
      Canonical(config.directory));
  if (!config.validation.empty()) {
    what += fmt::format(", {} of {}", listed.validation.count(), config.validation);
  }
  PS_ASSIGN(
      const bool is_kept,
      OpenOrMake(config, what, listed.AllPaths(), progress, make, open, &sets.note));
  if (is_kept) {
    return sets;
  }
  for (const Part& part : parts) {
    PS_ASSIGN(PictureBytes bytes, read(*part.files));
    *part.made = {SharedArray<uint8_t>(std::move(bytes.pixels)), CrcOf(bytes.crcs)};
  }
  return sets;
}

}  // namespace

Result<DatasetInfo> InspectPictures(const proto::DataConfig& config) {
  LoadProgress unasked;
  PS_ASSIGN(Listed listed, List(config, &unasked));
  return std::move(listed.info);
}

Result<LoadedData> LoadPictures(const proto::DataConfig& config, LoadProgress* progress) {
  PS_ASSIGN(Listed listed, List(config, progress));
  PS_ASSIGN(PreparedSets sets, Prepare(config, listed, progress));
  LoadedData loaded;
  loaded.info = std::move(listed.info);
  loaded.fingerprint = FingerprintOf(loaded.info);
  // The files count, not the pixels: decoders of other versions may differ in a bit of these.
  loaded.fingerprint.train_images_crc = sets.train.files_crc;
  loaded.fingerprint.test_images_crc = sets.test.files_crc;
  const uint32_t names = CrcOfNames(loaded.info.class_names);
  loaded.fingerprint.train_labels_crc = CrcOf(listed.train.labels, names);
  loaded.fingerprint.test_labels_crc = CrcOf(listed.test.labels, names);
  const bool has_validation = !config.validation.empty();
  if (has_validation) {
    AddValidation(
        loaded.info.validation_count,
        sets.validation.files_crc,
        CrcOf(listed.validation.labels, names),
        &loaded.fingerprint);
  }
  const Shape& shape = loaded.info.shape;
  loaded.note = std::move(sets.note);
  loaded.normals = NormalsOf(shape, sets.train.pixels.values());
  for (const ByteNormal& normal : loaded.normals) {
    loaded.black.push_back(normal.Values()[0]);
  }
  constexpr uint32_t kNoPad = 0;
  const auto samples_of = [&](Prepared* made, LabeledPaths* files) {
    return MakeImageSamples(
        shape, std::move(made->pixels), std::move(files->labels), loaded.normals, kNoPad);
  };
  loaded.train = samples_of(&sets.train, &listed.train);
  loaded.test = samples_of(&sets.test, &listed.test);
  if (has_validation) {
    loaded.validation = samples_of(&sets.validation, &listed.validation);
  }
  return loaded;
}

}  // namespace ps::worker
