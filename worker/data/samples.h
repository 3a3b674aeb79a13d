#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ps/base/picture_move.h"
#include "ps/base/status.h"
#include "ps/proto/job/job_config.h"
#include "ps/proto/job/task.h"
#include "ps/proto/messages.h"
#include "worker/data/load_progress.h"
#include "worker/data/shared_array.h"
#include "worker/model/model.h"
#include "worker/model/picture_format.h"

// What each format makes of its files. dataset.h chooses among them; of other folders, worker/use
// takes these parts.

namespace ps::worker {

struct LabeledImages;

/// A part of the data that is called as if epochs were to be measured on it, and isn't used so.
struct UnusedValidation {
  std::string part;         // as data.validation could name it; empty: there is none
  std::string file;         // or folder, in data.directory: "val.csv", "val/"
  bool is_trained = false;  // it is trained on, or for tests, like the other texts

  friend bool operator==(const UnusedValidation&, const UnusedValidation&) = default;
};

/// What a job needs to know of its data to make a model and to count samples.
struct DatasetInfo {
  Shape shape;
  int64_t classes = 0;       // where numbers are learnt, how many a sample has
  int64_t labels = 1;        // a sample's: one, or one for each of its tokens, or for each number
  uint64_t train_count = 0;  // after DataConfig::train_samples
  uint64_t test_count = 0;
  /// Samples of data.validation, or of those for training, which has the others: train_count.
  uint64_t validation_count = 0;
  /// Name of each class, by number; only for pictures in folders, and for tables whose labels are
  /// not numbers from 0.
  std::vector<std::string> class_names = {};
  /// Names of files in data.directory that were taken for no data: of those that are called like
  /// it, or, of pictures in folders, of all others.
  std::vector<std::string> left_out = {};
  UnusedValidation unused_validation = {};

  friend bool operator==(const DatasetInfo&, const DatasetInfo&) = default;
};

/// Samples in the order of the files. Thread: any.
class Samples {
 public:
  virtual ~Samples() = default;

  /// Writes a sample as it enters the model, and its labels; a label may be kNoLabel. A number that
  /// is learnt is written as the bits of its float. What is drawn by chance follows from (sample,
  /// draw). Requires: spans of the info's sizes. Errors: kCorruption with file and byte, only where
  /// LoadedData::is_checked is false.
  virtual Status Read(
      uint64_t sample, uint64_t draw, std::span<float> input, std::span<uint32_t> labels) const = 0;

  /// What ReadRaw gives. nullptr: there is no such thing.
  virtual const PictureFormat* pictures() const { return nullptr; }

  /// The same sample as its file has it, and what `draw` makes of it: who does that with the values
  /// of pictures() has what Read gives. Requires: pictures(), and memory for one of them. Errors:
  /// as Read.
  virtual Status ReadRaw(
      uint64_t sample,
      uint64_t draw,
      std::span<uint8_t> bytes,
      PictureMove* move,
      std::span<uint32_t> labels) const;
};

struct LoadedData {
  DatasetInfo info;
  proto::DatasetFingerprint fingerprint;
  std::shared_ptr<const Samples> train;
  std::unique_ptr<const Samples> test;
  std::unique_ptr<const Samples> validation;  // of data.validation; null: there is no such part
  std::shared_ptr<const Samples> as_stored;   // `train` before it was augmented
  std::vector<float> black;                   // of each channel of a picture; zeroes when empty
  std::vector<ByteNormal> normals = {};       // of idx, CIFAR and pictures, by channel
  std::vector<double> target_means;  // where numbers are learnt: of each, over the training samples
  std::string note;                  // for people: why the cache has no part in it; or empty
  bool is_checked = true;  // false: there is so much that values are looked at when they are read
};

// Each Load checks all that the config's limits leave, or says that it has not (is_checked), and
// tells `progress` how far it is; Inspect is as brief as the format allows. Errors: as
// Dataset::Load.

/// idx, cifar10, cifar100.
Result<LoadedData> LoadImages(const proto::DataConfig& config, LoadProgress* progress);
Result<DatasetInfo> InspectImages(const proto::DataConfig& config);
/// Pictures whose bytes become what `normals` say, one a channel.
std::unique_ptr<const Samples> MakeImageSamples(
    LabeledImages images, const std::vector<ByteNormal>& normals, uint32_t pad);
/// The same of pixels [n, c, h, w] and labels [n].
std::unique_ptr<const Samples> MakeImageSamples(
    const Shape& shape,
    SharedArray<uint8_t> pixels,
    std::vector<uint32_t> labels,
    const std::vector<ByteNormal>& normals,
    uint32_t pad);
/// What the bytes of each channel become: mean and deviation of all. Integer sums make it
/// independent of any order.
std::vector<ByteNormal> NormalsOf(const Shape& shape, std::span<const uint8_t> pixels);
/// pictures: PNG and JPEG in folders of classes.
Result<LoadedData> LoadPictures(const proto::DataConfig& config, LoadProgress* progress);
Result<DatasetInfo> InspectPictures(const proto::DataConfig& config);
Result<LoadedData> LoadText(const proto::DataConfig& config, LoadProgress* progress);
Result<LoadedData> LoadNpy(
    const proto::DataConfig& config, proto::Task task, LoadProgress* progress);
/// csv, tsv.
Result<LoadedData> LoadTable(
    const proto::DataConfig& config, proto::Task task, LoadProgress* progress);
Result<DatasetInfo> InspectNpy(const proto::DataConfig& config, proto::Task task);

/// Moves and mirrors the training samples as the config says; the tests stay. Errors:
/// kInvalidArgument when they are no pictures, or smaller than the moves.
Status Augment(const proto::AugmentConfig& config, LoadedData* data);
/// Whether it can. The same errors.
Status CheckAugment(const proto::AugmentConfig& config, const Shape& shape);

/// "" when a number may be learnt, else what is wrong with it: "is 0.5, ...".
std::string WrongTarget(proto::Task task, float target);

/// The samples that the config asks for must be there. Puts their numbers into `info`.
Status ApplyLimits(
    const proto::DataConfig& config, uint64_t train_count, uint64_t test_count, DatasetInfo* info);

/// Shape, classes and counts of the info; the checksums are the caller's to add.
proto::DatasetFingerprint FingerprintOf(const DatasetInfo& info);

}  // namespace ps::worker
