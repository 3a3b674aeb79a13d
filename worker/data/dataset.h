#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "ps/base/status.h"
#include "ps/proto/job/job_config.h"
#include "ps/proto/job/task.h"
#include "ps/proto/messages.h"
#include "worker/data/order.h"
#include "worker/data/samples.h"
#include "worker/data/store/stored_data.h"

namespace ps::worker {

/// Positions [begin, end).
struct SampleRange {
  uint64_t begin = 0;
  uint64_t end = 0;
};

/// Where a minibatch of n samples goes: its images, or the bytes and moves that they are made of.
struct BatchMemory {
  std::span<float> images;            // [n, c, h, w], or [n, tokens]
  std::span<uint32_t> labels;         // [n, labels of a sample]
  std::span<uint8_t> bytes = {};      // [n, c, h, w] of Dataset::pictures()
  std::span<PictureMove> moves = {};  // [n]
};

enum class BatchForm : uint8_t {
  kValues,  // images
  kBytes,   // bytes and moves
};

/// How a minibatch lies in one piece of memory.
class BatchLayout {
 public:
  BatchLayout(const DatasetInfo& info, BatchForm form, const PictureFormat* pictures);

  uint64_t BytesFor(uint64_t samples) const;
  /// Requires: `data` is aligned to 4 bytes and has BytesFor(samples).
  BatchMemory At(std::byte* data, uint64_t samples) const;
  /// Whether the memory is for so many samples.
  bool Fits(const BatchMemory& memory, uint64_t samples) const;

 private:
  uint64_t values_;  // of a sample
  uint64_t labels_;
  uint64_t bytes_;
  uint64_t moves_;
};

/// Training and test samples.
/// Thread: const members from any.
class Dataset {
 public:
  /// Reads config.directory, or, of one in an object store, what DataHere brings of it:
  ///   kIdx       train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte,
  ///              t10k-labels-idx1-ubyte, each plain or with .gz
  ///   kCifar10   data_batch_1.bin to data_batch_5.bin, test_batch.bin, each plain or with .gz
  ///   kCifar100  train.bin, test.bin, each plain or with .gz
  ///   kText      *.txt and *.txt.gz; of config.tokenizer vocab.json and merges.txt
  ///   kCsv       train*.csv, test*.csv, each plain or with .gz; kTsv likewise
  ///   kPictures  train/CLASS/, test/CLASS/ with PNG and JPEG: see ListPictureFolders
  /// What of these is no data: see DataListing.
  ///   kNpy       train-inputs*.npy, train-labels*.npy, test-inputs*.npy, test-labels*.npy
  /// and, of all but the first three, the part config.validation, which is called likewise.
  /// The classes of IDX data are 0 to k-1, all of which occur in training, whatever the limits.
  /// Bytes of images become floats on the way out, normalised per channel with mean and standard
  /// deviation of the training images (exact sums, so the same on every machine):
  /// value = (byte - mean) / deviation. Training pictures are changed as config.augment says.
  /// Samples for validation are those of config.validation, or config.validation_share of those for
  /// training: which ones follows from `seed`, train.seed of the job; of a text the last ones.
  /// `stored` is about data in an object store alone.
  /// Other threads may ask `progress`, if any, how far it is, and cancel it.
  /// Errors: kCancelled; kNotFound that says how to get the data; else as ReadIdx, ReadCifar,
  /// ReadText, Bpe::Load, NpyFile::Open, AppendTable and DataHere. kInvalidArgument: the task needs
  /// numbers, and the format has classes.
  static Result<Dataset> Load(
      const proto::DataConfig& config,
      LoadProgress* progress = nullptr,
      proto::Task task = proto::Task::kClasses,
      uint64_t seed = 1,
      StoredState stored = StoredState::kNow);

  /// The same info; of IDX files and pictures in folders without reading the pixels. Same errors,
  /// as far as it reads.
  static Result<DatasetInfo> Inspect(
      const proto::DataConfig& config,
      proto::Task task = proto::Task::kClasses,
      LoadProgress* progress = nullptr,
      StoredState stored = StoredState::kNow);

  /// The same for data whose fingerprint is known, and without reading what Inspect reads in full:
  /// text and tables, then without the names of classes and of files. With config.validation they
  /// are read, or found in the cache.
  static Result<DatasetInfo> InspectKnown(
      const proto::DataConfig& config,
      const proto::DatasetFingerprint& known,
      proto::Task task = proto::Task::kClasses);

  /// Looks at every value that Load has left to whoever reads it. `progress` as of Load. Errors:
  /// kCancelled; kCorruption with file and byte.
  Status CheckAll(LoadProgress* progress = nullptr) const;

  const DatasetInfo& info() const { return data_.info; }

  /// The fingerprint of the samples within the config's limits: a share for validation are training
  /// samples to it, a part for it is in the checksums of the tests. Its checksums are DataSum's.
  const proto::DatasetFingerprint& fingerprint() const { return data_.fingerprint; }

  /// For people: why what was made of the files is not kept; empty when there is nothing to say.
  const std::string& note() const { return data_.note; }

  /// Where numbers are learnt, the mean of each over the training samples; else nothing.
  std::span<const double> target_means() const { return data_.target_means; }

  /// How the bytes of pictures become values, of training and test samples alike. nullptr: these
  /// are no pictures of bytes.
  const PictureFormat* pictures() const { return data_.train->pictures(); }

  /// What bytes of pictures become, by channel; empty: they are none of idx, CIFAR or folders.
  const std::vector<ByteNormal>& normals() const { return data_.normals; }

  BatchLayout LayoutOf(BatchForm form) const { return {info(), form, pictures()}; }

  /// Writes the training samples at these positions of an epoch, as bytes and moves where the
  /// memory has room for these instead of images.
  /// Errors: kInvalidArgument when the range or the memory does not fit; kCorruption with file and
  /// byte for a value that Load has not looked at.
  Status FetchTrain(
      const EpochOrder& order, const SampleRange& range, const BatchMemory& memory) const;

  /// Writes these samples, which training does not see: the test samples in the order of the file,
  /// and behind them those for validation. Same errors.
  Status FetchTest(const SampleRange& range, const BatchMemory& memory) const;

 private:
  Dataset(LoadedData data, std::optional<EpochOrder> split)
      : data_(std::move(data)), split_(split) {}

  /// The place in the files of a training sample, or, from train_count on, of one for validation.
  uint64_t PlaceOf(uint64_t sample) const { return split_ ? split_->SampleAt(sample) : sample; }

  Status CheckFetch(const SampleRange& range, uint64_t count, const BatchMemory& memory) const;
  /// Puts one sample at place `slot` of the memory.
  Status Read(
      const Samples& from,
      uint64_t sample,
      uint64_t draw,
      uint64_t slot,
      const BatchMemory& memory) const;

  LoadedData data_;
  std::optional<EpochOrder> split_;  // none: no share for validation, or the last ones
};

}  // namespace ps::worker
