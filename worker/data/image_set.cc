#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "worker/data/data_listing.h"
#include "worker/data/data_sum.h"
#include "worker/data/image_files.h"
#include "worker/data/samples.h"

namespace ps::worker {
namespace {

std::string HowToGet(proto::DatasetFormat format) {
  if (format == proto::DatasetFormat::kIdx) {
    return "Fashion-MNIST comes to /usr/share/datasets/fashion-mnist by: "
           "apt-get install dataset-fashion-mnist";
  }
  return "the binary version of CIFAR comes from https://www.cs.toronto.edu/~kriz/cifar.html";
}

Result<std::string> FindFile(const proto::DataConfig& config, const std::string& name) {
  Result<std::string> found = FindDataFile(config.directory, name);
  if (found.status().code() == StatusCode::kNotFound) {
    return Status::NotFound(
        fmt::format("{}; {}", found.status().message(), HowToGet(config.format)));
  }
  return found;
}

struct IdxPaths {
  std::string train_images;
  std::string train_labels;
  std::string test_images;
  std::string test_labels;
};

Result<IdxPaths> FindIdx(const proto::DataConfig& config) {
  IdxPaths paths;
  PS_ASSIGN(paths.train_images, FindFile(config, "train-images-idx3-ubyte"));
  PS_ASSIGN(paths.train_labels, FindFile(config, "train-labels-idx1-ubyte"));
  PS_ASSIGN(paths.test_images, FindFile(config, "t10k-images-idx3-ubyte"));
  PS_ASSIGN(paths.test_labels, FindFile(config, "t10k-labels-idx1-ubyte"));
  return paths;
}

Status CheckIdxLabels(const std::string& path, std::span<const uint8_t> labels, int64_t classes) {
  constexpr size_t kHeaderBytes = 8;
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] >= classes) {
      return Status::Corruption(fmt::format(
          "{}: byte {}: label {} is out of range; the training labels are 0 to {}",
          path,
          kHeaderBytes + i,
          labels[i],
          classes - 1));
    }
  }
  return Status::Ok();
}

/// IDX files do not say how many classes there are: labels 0 to k-1 must occur, and no others.
Result<int64_t> CountIdxClasses(const IdxPaths& paths) {
  PS_ASSIGN(const std::vector<uint8_t> train, ReadIdxLabels(paths.train_labels));
  PS_ASSIGN(const std::vector<uint8_t> test, ReadIdxLabels(paths.test_labels));
  std::array<bool, 257> occurs{};  // the last one stays false
  for (const uint8_t label : train) {
    occurs[label] = true;
  }
  const int64_t classes = std::find(occurs.begin(), occurs.end(), false) - occurs.begin();
  if (classes < 2) {
    return Status::Corruption(fmt::format(
        "{}: no sample has label {}; classes are numbered from 0, and there are at "
        "least two",
        paths.train_labels,
        classes));
  }
  PS_TRY(CheckIdxLabels(paths.train_labels, train, classes));
  PS_TRY(CheckIdxLabels(paths.test_labels, test, classes));
  return classes;
}

/// Training and test images as read, and what belongs to both.
struct Loaded {
  LabeledImages train;
  LabeledImages test;
  int64_t classes = 0;
};

Status ShapesDiffer(const std::string& directory, const Shape& train, const Shape& test) {
  return Status::Corruption(fmt::format(
      "{}: training images are {}, test images {}", directory, train.ToString(), test.ToString()));
}

Result<Loaded> LoadIdx(const proto::DataConfig& config, LoadProgress* progress) {
  PS_ASSIGN(const IdxPaths paths, FindIdx(config));
  progress->Expect(StoredBytes(paths.train_images) + StoredBytes(paths.test_images));
  Loaded data;
  PS_ASSIGN(data.classes, CountIdxClasses(paths));
  PS_ASSIGN(
      data.train, ReadIdx(paths.train_images, paths.train_labels, config.train_samples, progress));
  PS_ASSIGN(
      data.test, ReadIdx(paths.test_images, paths.test_labels, config.test_samples, progress));
  if (data.train.shape != data.test.shape) {
    return ShapesDiffer(config.directory, data.train.shape, data.test.shape);
  }
  return data;
}

Result<Loaded> LoadCifar10(const proto::DataConfig& config, LoadProgress* progress) {
  std::vector<std::string> train;
  for (int i = 1; i <= 5; ++i) {
    PS_ASSIGN(std::string path, FindFile(config, fmt::format("data_batch_{}.bin", i)));
    progress->Expect(StoredBytes(path));
    train.push_back(std::move(path));
  }
  PS_ASSIGN(const std::string test, FindFile(config, "test_batch.bin"));
  progress->Expect(StoredBytes(test));
  Loaded data;
  data.classes = kCifar10.classes;
  PS_ASSIGN(data.train, ReadCifar(kCifar10, train, config.train_samples, progress));
  PS_ASSIGN(data.test, ReadCifar(kCifar10, {&test, 1}, config.test_samples, progress));
  return data;
}

Result<Loaded> LoadCifar100(const proto::DataConfig& config, LoadProgress* progress) {
  PS_ASSIGN(const std::string train, FindFile(config, "train.bin"));
  PS_ASSIGN(const std::string test, FindFile(config, "test.bin"));
  progress->Expect(StoredBytes(train) + StoredBytes(test));
  Loaded data;
  data.classes = kCifar100.classes;
  PS_ASSIGN(data.train, ReadCifar(kCifar100, {&train, 1}, config.train_samples, progress));
  PS_ASSIGN(data.test, ReadCifar(kCifar100, {&test, 1}, config.test_samples, progress));
  return data;
}

Shape Padded(const proto::DataConfig& config, Shape shape) {
  shape.height += 2 * int64_t{config.pad};
  shape.width += 2 * int64_t{config.pad};
  return shape;
}

struct ByteSums {
  uint64_t values = 0;
  uint64_t squares = 0;
};

void AddBytes(std::span<const uint8_t> bytes, ByteSums* sums) {
  constexpr size_t kBlock = 65'536;  // whose squares 32 bits hold, which vectors have many of
  while (!bytes.empty()) {
    uint32_t values = 0;
    uint32_t squares = 0;
    for (const uint32_t byte : bytes.first(std::min(bytes.size(), kBlock))) {
      values += byte;
      squares += byte * byte;
    }
    sums->values += values;
    sums->squares += squares;
    bytes = bytes.subspan(std::min(bytes.size(), kBlock));
  }
}

class ImageSamples final : public Samples {
 public:
  using Tables = std::vector<std::array<float, 256>>;

  ImageSamples(
      const Shape& shape,
      SharedArray<uint8_t> pixels,
      std::vector<uint32_t> labels,
      Tables value_of_byte,
      uint32_t pad)
      : pixels_(std::move(pixels)),
        labels_(std::move(labels)),
        format_{shape.channels, shape.height, shape.width, int64_t{pad}, std::move(value_of_byte)},
        pad_(pad) {}

  Status Read(
      uint64_t sample,
      uint64_t /*draw*/,
      std::span<float> input,
      std::span<uint32_t> labels) const override {
    labels[0] = labels_[sample];
    const auto height = static_cast<size_t>(format_.height);
    const auto width = static_cast<size_t>(format_.width);
    const uint8_t* pixel = PixelsOf(sample);
    const size_t padded_width = width + 2 * pad_;
    float* plane = input.data();
    for (const std::array<float, 256>& values : format_.values) {
      const size_t plane_size = (height + 2 * pad_) * padded_width;
      if (pad_ > 0) {
        std::fill_n(plane, plane_size, values[0]);
      }
      for (size_t row = 0; row < height; ++row) {
        float* out = plane + (row + pad_) * padded_width + pad_;
        for (size_t i = 0; i < width; ++i) {
          out[i] = values[pixel[i]];
        }
        pixel += width;
      }
      plane += plane_size;
    }
    return Status::Ok();
  }

  const PictureFormat* pictures() const override { return &format_; }

  Status ReadRaw(
      uint64_t sample,
      uint64_t /*draw*/,
      std::span<uint8_t> bytes,
      PictureMove* move,
      std::span<uint32_t> labels) const override {
    labels[0] = labels_[sample];
    std::copy_n(PixelsOf(sample), bytes.size(), bytes.data());
    *move = {};
    return Status::Ok();
  }

 private:
  const uint8_t* PixelsOf(uint64_t sample) const {
    return pixels_.values().data() + sample * static_cast<uint64_t>(format_.byte_count());
  }

  const SharedArray<uint8_t> pixels_;
  const std::vector<uint32_t> labels_;
  const PictureFormat format_;  // its values are normalised
  const size_t pad_;
};

}  // namespace

std::vector<ByteNormal> NormalsOf(const Shape& shape, std::span<const uint8_t> pixels) {
  const auto channels = static_cast<size_t>(shape.channels);
  const auto plane = static_cast<size_t>(shape.height * shape.width);
  const size_t images = pixels.size() / (channels * plane);
  std::vector<ByteNormal> normals;
  for (size_t c = 0; c < channels; ++c) {
    ByteSums sums;
    for (size_t i = 0; i < images; ++i) {
      AddBytes(pixels.subspan((i * channels + c) * plane, plane), &sums);
    }
    const double count = static_cast<double>(images * plane);
    const double mean = static_cast<double>(sums.values) / count;
    const double variance = static_cast<double>(sums.squares) / count - mean * mean;
    // Images of one grey value have no spread to normalise; half a grey level avoids dividing by 0.
    normals.push_back({mean, std::max(std::sqrt(std::max(variance, 0.0)), 0.5)});
  }
  return normals;
}

std::unique_ptr<const Samples> MakeImageSamples(
    const Shape& shape,
    SharedArray<uint8_t> pixels,
    std::vector<uint32_t> labels,
    const std::vector<ByteNormal>& normals,
    uint32_t pad) {
  ImageSamples::Tables tables;
  for (const ByteNormal& normal : normals) {
    tables.push_back(normal.Values());
  }
  return std::make_unique<ImageSamples>(
      shape, std::move(pixels), std::move(labels), std::move(tables), pad);
}

std::unique_ptr<const Samples> MakeImageSamples(
    LabeledImages images, const std::vector<ByteNormal>& normals, uint32_t pad) {
  return MakeImageSamples(
      images.shape,
      SharedArray<uint8_t>(std::move(images.pixels)),
      std::vector<uint32_t>(images.labels.begin(), images.labels.end()),
      normals,
      pad);
}

Result<LoadedData> LoadImages(const proto::DataConfig& config, LoadProgress* progress) {
  using proto::DatasetFormat;
  PS_ASSIGN(
      Loaded data,
      config.format == DatasetFormat::kIdx       ? LoadIdx(config, progress)
      : config.format == DatasetFormat::kCifar10 ? LoadCifar10(config, progress)
                                                 : LoadCifar100(config, progress));
  LoadedData loaded;
  loaded.info.shape = Padded(config, data.train.shape);
  loaded.info.classes = data.classes;
  PS_TRY(ApplyLimits(config, data.train.count(), data.test.count(), &loaded.info));
  loaded.fingerprint = FingerprintOf(loaded.info);
  const auto crc = [](const std::vector<uint8_t>& bytes) {
    return DataSum(std::as_bytes(std::span(bytes)));
  };
  loaded.fingerprint.train_images_crc = crc(data.train.pixels);
  loaded.fingerprint.train_labels_crc = crc(data.train.labels);
  loaded.fingerprint.test_images_crc = crc(data.test.pixels);
  loaded.fingerprint.test_labels_crc = crc(data.test.labels);
  loaded.normals = NormalsOf(data.train.shape, data.train.pixels);
  for (const ByteNormal& normal : loaded.normals) {
    loaded.black.push_back(normal.Values()[0]);
  }
  loaded.train = MakeImageSamples(std::move(data.train), loaded.normals, config.pad);
  loaded.test = MakeImageSamples(std::move(data.test), loaded.normals, config.pad);
  return loaded;
}

Result<DatasetInfo> InspectImages(const proto::DataConfig& config) {
  if (config.format != proto::DatasetFormat::kIdx) {
    LoadProgress unasked;
    PS_ASSIGN(const LoadedData data, LoadImages(config, &unasked));
    return data.info;
  }
  PS_ASSIGN(const IdxPaths paths, FindIdx(config));
  PS_ASSIGN(const ImageSetInfo train, InspectIdx(paths.train_images));
  PS_ASSIGN(const ImageSetInfo test, InspectIdx(paths.test_images));
  if (train.shape != test.shape) {
    return ShapesDiffer(config.directory, train.shape, test.shape);
  }
  DatasetInfo info;
  info.shape = Padded(config, train.shape);
  PS_ASSIGN(info.classes, CountIdxClasses(paths));
  PS_TRY(ApplyLimits(config, train.count, test.count, &info));
  return info;
}

}  // namespace ps::worker
