#pragma once

#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/model/model_writer.h"
#include "checkpoint/model/safetensors.h"
#include "checkpoint/model/tensor_match.h"
#include "ps/base/tensor_spec.h"
#include "ps/coordinator/state/model_files.h"
#include "ps/proto/job/job_config.h"

namespace ps::coordinator {

/// The initial values out of a safetensors file; those that it lacks are drawn.
class ModelFileSource final : public ModelSource {
 public:
  struct Options {
    /// A safetensors file with what the model has besides `tensors`, and other names of these, as
    /// KeptTensors says; empty: nothing. The file may have them as well. Then a tensor is taken by
    /// whichever name is there, and what is here and isn't trained has to have the same values.
    std::string kept_path = "";
    checkpoint::TakeRule take = checkpoint::TakeRule::kAll;
    uint64_t seed = 0;  // by which values are drawn that the file lacks
  };

  /// Errors: those of SafetensorsReader::Open and MatchTensors. All name the file, and the tensor
  /// that is at fault.
  static Result<std::unique_ptr<ModelFileSource>> Open(
      const std::string& path, std::span<const TensorSpec> tensors, const Options& options);

  static Result<std::unique_ptr<ModelFileSource>> Open(
      const std::string& path, std::span<const TensorSpec> tensors) {
    return Open(path, tensors, Options());
  }

  /// What `config` says of the initial values of these tensors. Errors: as Open, naming model.from.
  static Result<std::unique_ptr<ModelFileSource>> Open(
      const proto::JobConfig& config, std::span<const TensorSpec> tensors);

  Status Read(uint32_t tensor, int64_t begin, std::span<float> out) override;

  /// Reads all of it. Errors: as Read; kInvalidArgument naming what has other values than the same
  /// tensor has elsewhere.
  Status CheckValues();

  const checkpoint::TensorMatch& match() const { return match_; }

 private:
  /// A tensor of the file and one that is to have its values.
  struct Pair {
    checkpoint::StoredTensor stored;
    checkpoint::StoredTensor other;
    const checkpoint::SafetensorsReader* where;  // that one is
  };

  ModelFileSource(
      checkpoint::SafetensorsReader reader, std::vector<TensorSpec> tensors, uint64_t seed)
      : reader_(std::move(reader)),
        tensors_(std::move(tensors)),
        seed_(seed),
        header_(reader_.header()) {}

  Status SetKeptApart(const std::string& kept_path);
  Status CheckPair(const Pair& pair) const;
  Result<bool> HaveSameValues(const Pair& pair) const;

  const checkpoint::SafetensorsReader reader_;
  const std::vector<TensorSpec> tensors_;
  const uint64_t seed_;
  checkpoint::SafetensorsHeader header_;  // of the file, as far as it is for the servers
  std::optional<checkpoint::SafetensorsReader> kept_;
  std::vector<Pair> pairs_;
  checkpoint::TensorMatch match_;
};

/// A safetensors file for the model at the end, as f32. It is made durable on a thread of its own,
/// since a disk may take seconds for that. Thread: the owner's.
class ModelFileSink final : public ModelSink {
 public:
  /// `frozen_path`: a safetensors file with what is in the model besides, and with other names of
  /// its tensors; empty: nothing is.
  /// `more`: metadata beside those of Begin, asked then; may be empty.
  ModelFileSink(
      std::string path,
      std::vector<TensorSpec> tensors,
      std::string frozen_path = "",
      std::function<std::map<std::string, std::string>()> more = {})
      : path_(std::move(path)),
        tensors_(std::move(tensors)),
        frozen_path_(std::move(frozen_path)),
        more_(std::move(more)) {}

  Status Begin(std::map<std::string, std::string> metadata) override;
  Status Write(uint32_t tensor, int64_t begin, std::span<const float> values) override;
  void Finish() override;
  std::optional<Status> Outcome() override;
  void Abandon() override;

  std::string path() const override { return path_; }

 private:
  const std::string path_;
  const std::vector<TensorSpec> tensors_;
  const std::string frozen_path_;
  const std::function<std::map<std::string, std::string>()> more_;
  std::unique_ptr<checkpoint::ModelWriter> writer_;  // the thread's while it finishes
  std::future<Status> finishing_;
  std::optional<Status> outcome_;
};

}  // namespace ps::coordinator
