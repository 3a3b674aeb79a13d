#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "ps/base/status.h"
#include "ps/proto/job_config.h"
#include "ps/proto/messages.h"
#include "worker/data/image_files.h"
#include "worker/data/order.h"
#include "worker/model/model.h"

namespace ps::worker {

/// What a job needs to know of its data to make a model and to count samples.
struct DatasetInfo {
  Shape shape;
  int64_t classes = 0;
  uint64_t train_count = 0;  // after DataConfig::train_samples
  uint64_t test_count = 0;

  friend bool operator==(const DatasetInfo&, const DatasetInfo&) = default;
};

/// Positions [begin, end).
struct SampleRange {
  uint64_t begin = 0;
  uint64_t end = 0;
};

/// Where a minibatch of n samples goes.
struct BatchMemory {
  std::span<float> images;     // [n, c, h, w]
  std::span<uint32_t> labels;  // [n]
};

/// Training and test images in memory, as bytes. They become floats on the way out, normalised per
/// channel with mean and standard deviation of the training images (exact sums, so the same on
/// every machine): value = (byte - mean) / deviation.
/// Thread: const members from any.
class Dataset {
 public:
  /// Reads config.directory:
  ///   kIdx      train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte,
  ///             t10k-labels-idx1-ubyte, each plain or with .gz
  ///   kCifar10  data_batch_1.bin to data_batch_5.bin, test_batch.bin
  /// The classes of IDX data are 0 to k-1, all of which occur in training, whatever the limits.
  /// Errors: kNotFound that says how to get the data; else as ReadIdx and ReadCifar10.
  static Result<Dataset> Load(const proto::DataConfig& config);

  /// The same info; of IDX files without reading the pixels. Same errors, as far as it reads.
  static Result<DatasetInfo> Inspect(const proto::DataConfig& config);

  const DatasetInfo& info() const { return info_; }

  /// Of what was read, as far as the config's limits go.
  const proto::DatasetFingerprint& fingerprint() const { return fingerprint_; }

  /// Writes the training samples at these positions of an epoch.
  /// Errors: kInvalidArgument when the range or the memory does not fit.
  Status FetchTrain(
      const EpochOrder& order, const SampleRange& range, const BatchMemory& memory) const;

  /// Writes these test samples, in the order of the file. Same errors.
  Status FetchTest(const SampleRange& range, const BatchMemory& memory) const;

 private:
  Dataset() = default;

  Status CheckFetch(const SampleRange& range, uint64_t count, const BatchMemory& memory) const;
  /// Puts one sample at place `slot` of the memory.
  void Convert(
      const LabeledImages& from, uint64_t sample, uint64_t slot, const BatchMemory& memory) const;

  DatasetInfo info_;
  proto::DatasetFingerprint fingerprint_;
  LabeledImages train_;
  LabeledImages test_;
  std::vector<std::array<float, 256>> value_of_byte_;  // [c]: normalised
};

}  // namespace ps::worker
