#pragma once

#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

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
    std::span<const TensorSpec> frozen = {};  // the file may have them as well; they are not read
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

  /// Reads all of it. Errors: as Read.
  Status CheckValues();

  const checkpoint::TensorMatch& match() const { return match_; }

 private:
  ModelFileSource(
      checkpoint::SafetensorsReader reader, std::vector<TensorSpec> tensors, uint64_t seed)
      : reader_(std::move(reader)), tensors_(std::move(tensors)), seed_(seed) {}

  const checkpoint::SafetensorsReader reader_;
  const std::vector<TensorSpec> tensors_;
  const uint64_t seed_;
  checkpoint::TensorMatch match_;
};

/// A safetensors file for the model at the end, as f32. It is made durable on a thread of its own,
/// since a disk may take seconds for that. Thread: the owner's.
class ModelFileSink final : public ModelSink {
 public:
  /// `frozen_path`: a safetensors file whose tensors are put behind the model's; empty: none.
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
  std::optional<checkpoint::SafetensorsReader> frozen_;
  std::unique_ptr<checkpoint::SafetensorsWriter> writer_;  // the thread's while it finishes
  std::future<Status> finishing_;
  std::optional<Status> outcome_;
};

}  // namespace ps::coordinator
