#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "ps/base/status.h"
#include "ps/proto/metric.h"
#include "worker/model/network.h"
#include "worker/use/inputs.h"
#include "worker/use/model_card.h"

namespace ps::worker {

/// A model file in memory, with the arithmetic of a worker. Thread: one at a time.
class TrainedModel {
 public:
  /// The backends outlive it. Errors: of the file, kNotFound, kIo, kCorruption, kUnsupported, or
  /// kInvalidArgument when its tensors are not those of the card's layers, all with path and
  /// tensor; as Network::Make.
  static Result<std::unique_ptr<TrainedModel>> Load(
      const std::string& file,
      const ModelCard& card,
      const std::vector<kernels::Backend*>& backends);

  const Model& model() const { return model_; }

  /// Samples that are computed at a time, by the size of what a sample takes.
  uint64_t batch_samples() const { return batch_samples_; }

  /// Loss and hits of samples [begin, end), which have labels; at most batch_samples(). What the
  /// model's task is measured by besides is added to `sums`. Errors: as Network::Evaluate.
  Result<BatchLoss> Evaluate(
      const Inputs& inputs, uint64_t begin, uint64_t end, proto::MetricSums* sums);

  /// What the last layer gives for samples [begin, end), likewise: Model::output_count() each,
  /// valid until the next call. Before any softmax or sigmoid.
  Result<std::span<const float>> Apply(const Inputs& inputs, uint64_t begin, uint64_t end);
  /// The same for one sample's values, as they enter the model.
  Result<std::span<const float>> Apply(std::span<const float> input);

  /// Labels of the samples of the last call, as their files have them; Model::labels each.
  std::span<const uint32_t> labels() const { return last_labels_; }

 private:
  TrainedModel(Model model, std::vector<double> target_means, kernels::Backend* backend)
      : model_(std::move(model)), target_means_(std::move(target_means)), backend_(*backend) {}

  Status ReadValues(const std::string& file);
  Status ReserveBatch();
  Result<Batch> Fetch(const Inputs& inputs, uint64_t begin, uint64_t end);
  Result<std::span<const float>> ApplyBatch(const Batch& batch, uint64_t samples);

  const Model model_;
  const std::vector<double> target_means_;  // as ModelCard has them
  kernels::Backend& backend_;
  std::unique_ptr<Network> network_;
  std::unique_ptr<kernels::Memory> parameters_;
  std::vector<std::span<const float>> values_;  // of each tensor
  uint64_t batch_samples_ = 1;
  std::unique_ptr<kernels::Memory> images_;
  std::unique_ptr<kernels::Memory> labels_;
  std::unique_ptr<kernels::Memory> outputs_;
  std::span<const uint32_t> last_labels_;
};

/// 1 / (1 + exp(-output)): the probability of a label that is 0 or 1.
double Sigmoid(float output);

/// Turns rows of outputs into probabilities: exp(z[i]) / sum over j of exp(z[j]). Returns false
/// where a value is no number.
bool Softmax(std::span<const float> outputs, std::vector<double>* probabilities);

}  // namespace ps::worker
