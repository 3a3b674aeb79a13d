#include "worker/data/dataset.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <utility>

#include "ps/base/crc32c.h"
#include "worker/data/image_files.h"

namespace ps::worker {
namespace {

namespace fs = std::filesystem;

std::string HowToGet(proto::DatasetFormat format) {
  if (format == proto::DatasetFormat::kIdx) {
    return "Fashion-MNIST comes to /usr/share/datasets/fashion-mnist by: "
           "apt-get install dataset-fashion-mnist";
  }
  return "CIFAR-10's binary version comes from https://www.cs.toronto.edu/~kriz/cifar.html";
}

/// `name` or `name`.gz in the data folder.
Result<std::string> FindFile(const proto::DataConfig& config, const std::string& name) {
  const fs::path plain = fs::path(config.directory) / name;
  for (const fs::path& path : {plain, fs::path(plain.string() + ".gz")}) {
    std::error_code ignored;  // a folder that cannot be read is a file that cannot be found
    if (fs::exists(path, ignored)) {
      return path.string();
    }
  }
  return Status::NotFound(
      "data.directory \"" + config.directory + "\" has no " + name + " and no " + name + ".gz; " +
      HowToGet(config.format));
}

/// The samples that the config asks for must be there.
Status CheckLimits(const proto::DataConfig& config, uint64_t train_count, uint64_t test_count) {
  const auto check = [](const char* name, uint64_t limit, uint64_t count) {
    return limit <= count ? Status::Ok()
                          : Status::InvalidArgument(
                                std::string(name) + " is " + std::to_string(limit) +
                                "; allowed: up to " + std::to_string(count) +
                                ", which is all that data.directory has, or 0 for all");
  };
  PS_TRY(check("data.train_samples", config.train_samples, train_count));
  return check("data.test_samples", config.test_samples, test_count);
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
      return Status::Corruption(
          path + ": byte " + std::to_string(kHeaderBytes + i) + ": label " +
          std::to_string(labels[i]) + " is out of range; the training labels are 0 to " +
          std::to_string(classes - 1));
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
    return Status::Corruption(
        paths.train_labels + ": no sample has label " + std::to_string(classes) +
        "; classes are numbered from 0, and there are at least two");
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
  return Status::Corruption(
      directory + ": training images are " + train.ToString() + ", test images " + test.ToString());
}

Result<Loaded> LoadIdx(const proto::DataConfig& config) {
  PS_ASSIGN(const IdxPaths paths, FindIdx(config));
  Loaded data;
  PS_ASSIGN(data.classes, CountIdxClasses(paths));
  PS_ASSIGN(data.train, ReadIdx(paths.train_images, paths.train_labels, config.train_samples));
  PS_ASSIGN(data.test, ReadIdx(paths.test_images, paths.test_labels, config.test_samples));
  PS_TRY(CheckLimits(config, data.train.count(), data.test.count()));
  if (data.train.shape != data.test.shape) {
    return ShapesDiffer(config.directory, data.train.shape, data.test.shape);
  }
  return data;
}

Result<Loaded> LoadCifar10(const proto::DataConfig& config) {
  std::vector<std::string> train;
  for (int i = 1; i <= 5; ++i) {
    PS_ASSIGN(std::string path, FindFile(config, "data_batch_" + std::to_string(i) + ".bin"));
    train.push_back(std::move(path));
  }
  PS_ASSIGN(const std::string test, FindFile(config, "test_batch.bin"));
  Loaded data;
  data.classes = kCifar10Classes;
  PS_ASSIGN(data.train, ReadCifar10(train, config.train_samples));
  PS_ASSIGN(data.test, ReadCifar10({&test, 1}, config.test_samples));
  PS_TRY(CheckLimits(config, data.train.count(), data.test.count()));
  return data;
}

Result<DatasetInfo> InspectIdxFiles(const proto::DataConfig& config) {
  PS_ASSIGN(const IdxPaths paths, FindIdx(config));
  PS_ASSIGN(const ImageSetInfo train, InspectIdx(paths.train_images));
  PS_ASSIGN(const ImageSetInfo test, InspectIdx(paths.test_images));
  if (train.shape != test.shape) {
    return ShapesDiffer(config.directory, train.shape, test.shape);
  }
  DatasetInfo info;
  info.shape = train.shape;
  PS_ASSIGN(info.classes, CountIdxClasses(paths));
  PS_TRY(CheckLimits(config, train.count, test.count));
  info.train_count = config.train_samples == 0 ? train.count : config.train_samples;
  info.test_count = config.test_samples == 0 ? test.count : config.test_samples;
  return info;
}

DatasetInfo InfoOf(const Loaded& data) {
  return {
      .shape = data.train.shape,
      .classes = data.classes,
      .train_count = data.train.count(),
      .test_count = data.test.count()};
}

proto::DatasetFingerprint FingerprintOf(const Loaded& data) {
  const auto crc = [](const std::vector<uint8_t>& bytes) {
    return Crc32c(std::as_bytes(std::span(bytes)));
  };
  proto::DatasetFingerprint print;
  print.channels = static_cast<uint32_t>(data.train.shape.channels);
  print.height = static_cast<uint32_t>(data.train.shape.height);
  print.width = static_cast<uint32_t>(data.train.shape.width);
  print.classes = static_cast<uint32_t>(data.classes);
  print.train_count = data.train.count();
  print.test_count = data.test.count();
  print.train_images_crc = crc(data.train.pixels);
  print.train_labels_crc = crc(data.train.labels);
  print.test_images_crc = crc(data.test.pixels);
  print.test_labels_crc = crc(data.test.labels);
  return print;
}

/// What each byte of a channel becomes. Integer sums make it independent of any order.
std::vector<std::array<float, 256>> Normalisation(const LabeledImages& images) {
  const auto channels = static_cast<size_t>(images.shape.channels);
  const auto plane = static_cast<size_t>(images.shape.height * images.shape.width);
  std::vector<std::array<float, 256>> tables(channels);
  for (size_t c = 0; c < channels; ++c) {
    std::array<uint64_t, 256> histogram{};
    for (uint64_t i = 0; i < images.count(); ++i) {
      const uint8_t* pixels = images.pixels.data() + (i * channels + c) * plane;
      for (size_t p = 0; p < plane; ++p) {
        ++histogram[pixels[p]];
      }
    }
    uint64_t sum = 0;
    uint64_t square_sum = 0;
    for (uint64_t byte = 0; byte < 256; ++byte) {
      sum += histogram[byte] * byte;
      square_sum += histogram[byte] * byte * byte;
    }
    const double count = static_cast<double>(images.count() * plane);
    const double mean = static_cast<double>(sum) / count;
    const double variance = static_cast<double>(square_sum) / count - mean * mean;
    // Images of one grey value have no spread to normalise; half a grey level avoids dividing by 0.
    const double deviation = std::max(std::sqrt(std::max(variance, 0.0)), 0.5);
    for (size_t byte = 0; byte < 256; ++byte) {
      tables[c][byte] = static_cast<float>((static_cast<double>(byte) - mean) / deviation);
    }
  }
  return tables;
}

}  // namespace

Result<Dataset> Dataset::Load(const proto::DataConfig& config) {
  PS_ASSIGN(
      Loaded data,
      config.format == proto::DatasetFormat::kIdx ? LoadIdx(config) : LoadCifar10(config));
  Dataset dataset;
  dataset.info_ = InfoOf(data);
  dataset.fingerprint_ = FingerprintOf(data);
  dataset.value_of_byte_ = Normalisation(data.train);
  dataset.train_ = std::move(data.train);
  dataset.test_ = std::move(data.test);
  return dataset;
}

Result<DatasetInfo> Dataset::Inspect(const proto::DataConfig& config) {
  if (config.format == proto::DatasetFormat::kIdx) {
    return InspectIdxFiles(config);
  }
  PS_ASSIGN(const Loaded data, LoadCifar10(config));
  return InfoOf(data);
}

Status Dataset::FetchTrain(
    const EpochOrder& order, const SampleRange& range, const BatchMemory& memory) const {
  if (order.count() != info_.train_count) {
    return Status::InvalidArgument(
        "an order of " + std::to_string(order.count()) + " samples for " +
        std::to_string(info_.train_count));
  }
  PS_TRY(CheckFetch(range, info_.train_count, memory));
  for (uint64_t i = range.begin; i < range.end; ++i) {
    Convert(train_, order.SampleAt(i), i - range.begin, memory);
  }
  return Status::Ok();
}

Status Dataset::FetchTest(const SampleRange& range, const BatchMemory& memory) const {
  PS_TRY(CheckFetch(range, info_.test_count, memory));
  for (uint64_t i = range.begin; i < range.end; ++i) {
    Convert(test_, i, i - range.begin, memory);
  }
  return Status::Ok();
}

Status Dataset::CheckFetch(
    const SampleRange& range, uint64_t count, const BatchMemory& memory) const {
  if (range.begin > range.end || range.end > count) {
    return Status::InvalidArgument(
        "samples " + std::to_string(range.begin) + " to " + std::to_string(range.end) + " of " +
        std::to_string(count));
  }
  const uint64_t n = range.end - range.begin;
  if (memory.labels.size() != n ||
      memory.images.size() != n * static_cast<uint64_t>(info_.shape.element_count())) {
    return Status::InvalidArgument(
        "memory for " + std::to_string(memory.labels.size()) + " labels and " +
        std::to_string(memory.images.size()) + " image values, for " + std::to_string(n) +
        " samples of " + info_.shape.ToString());
  }
  return Status::Ok();
}

void Dataset::Convert(
    const LabeledImages& from, uint64_t sample, uint64_t slot, const BatchMemory& memory) const {
  const auto plane = static_cast<size_t>(info_.shape.height * info_.shape.width);
  const size_t size = plane * value_of_byte_.size();
  const uint8_t* pixels = from.pixels.data() + sample * size;
  float* image = memory.images.data() + slot * size;
  for (const std::array<float, 256>& values : value_of_byte_) {
    for (size_t i = 0; i < plane; ++i) {
      image[i] = values[pixels[i]];
    }
    pixels += plane;
    image += plane;
  }
  memory.labels[slot] = from.labels[sample];
}

}  // namespace ps::worker
