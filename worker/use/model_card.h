#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ps/base/status.h"
#include "ps/proto/job/job_config.h"
#include "ps/proto/job/task.h"
#include "worker/data/samples.h"
#include "worker/model/model.h"
#include "worker/model/picture_format.h"

namespace ps::worker {

/// What a model file says of itself, so that it can be used without its job and its data.
///
/// In the metadata of a safetensors file, which are texts:
///   spotps_model  "1", the version of what follows
///   model         {"layers": [...]}, as a job has it, with the loss at the end if it has one;
///   names
///                 of the zoo are resolved
///   data          the job's data section: format, pad, header, label, tokenizer, ...
///   input         {"kind": "image" | "sequence" | "tokens", "channels", "height", "width",
///                  "vocabulary", "classes", "labels"}, and what there is of "class_names",
///                  "mean" and "deviation" (a number a channel), "columns", "label_columns",
///                  "target_means", "tokenizer" {"tokens", "vocab_sha256", "merges_sha256"}
struct ModelCard {
  std::vector<proto::LayerConfig> layers;  // all of them, and the loss: no name of the zoo is left
  proto::DataConfig data;                  // its paths are those of the machine that ran the job
  Shape input;
  int64_t classes = 0;                   // outputs, as Model::classes
  int64_t labels = 1;                    // of a sample, as Model::labels
  std::vector<std::string> class_names;  // empty: a class is called as its number
  /// What a byte of each channel becomes; empty: inputs are no bytes.
  std::vector<ByteNormal> normals;
  std::vector<std::string> columns;  // of a table, without the labels'; empty: no header
  /// Names of the labels' columns: one of classes, else one for each output. Empty: no header.
  std::vector<std::string> label_columns;
  /// Where numbers are learnt, the mean of each over the training samples, which r2 is made with.
  std::vector<double> target_means;
  /// Which one data.tokenizer was, whatever lies under that path today.
  uint32_t tokens = 0;
  std::string vocabulary_sha256;
  std::string merges_sha256;

  proto::Task task() const;

  /// "shirt", or "7".
  std::string ClassName(int64_t number) const;

  /// What an output is that is no class: "price", or "0".
  std::string TargetName(int64_t output) const;

  friend bool operator==(const ModelCard&, const ModelCard&) = default;
};

using Metadata = std::map<std::string, std::string>;

/// What goes into the file.
Metadata MetadataOf(const ModelCard& card);

/// The opposite, of any texts; nothing: they say nothing of the kind, as those of a file that
/// another program has written, or an earlier version of this one. What it returns makes a model
/// (ModelOf). Errors: kCorruption that names the key and what is wrong there; kUnsupported, a newer
/// version.
Result<std::optional<ModelCard>> CardIn(const Metadata& metadata);

/// The card's layers with everything resolved. Errors: as MakeModel.
Result<Model> ModelOf(const ModelCard& card);

}  // namespace ps::worker
