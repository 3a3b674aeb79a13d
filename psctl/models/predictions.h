#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ps/base/status.h"
#include "ps/proto/job/task.h"
#include "worker/model/model.h"
#include "worker/use/model_card.h"
#include "worker/use/tokens.h"

namespace ps::psctl {

/// What a model gives for samples, as CSV (RFC 4180):
///
///   classes         sample,class,probability,p_NAME,...     with the probability of every class
///   the same, top K sample,class_1,probability_1,...        likeliest first
///   tokens          sample,token_1,probability_1,...        of the token behind a sample's last
///                                                           one
///   numbers         sample,NAME,...                         as value_0 where they have no names
///   several labels  sample,p_NAME,...                       each one's own probability
///
/// Samples are numbered from 0; pictures in files of their own have a column `file` in that place,
/// with the file's name. A token is its text, or <0x0a> for each byte where that is none to
/// be shown.
class Predictions {
 public:
  /// `top`: 0 for all classes. Errors: kInvalidArgument, more than there are, or no classes; of
  /// tokens, as Tokens::Of.
  static Result<Predictions> Of(
      const worker::ModelCard& card, const worker::Model& model, uint32_t top);

  std::string Header() const;

  /// Appends the line of a sample, which begins with `name`. `outputs`: as TrainedModel::Apply has
  /// them. Errors: kCorruption, the model gives values that are no numbers for it.
  Status Append(const std::string& name, std::span<const float> outputs, std::string* text);

 private:
  Predictions(const worker::ModelCard& card, uint32_t top)
      : card_(card), task_(card.task()), top_(top) {}

  Status AppendTargets(
      const std::string& name, std::span<const float> outputs, std::string* text) const;
  std::string NameOf(uint32_t number) const;

  const worker::ModelCard& card_;
  proto::Task task_;
  uint32_t top_;
  bool is_all_ = false;
  std::optional<worker::Tokens> tokens_;  // of models that go on with a text
  std::vector<double> probabilities_;
  std::vector<uint32_t> order_;
};

/// As a cell of CSV: in quotes where it has to be.
std::string CsvCell(const std::string& text);

}  // namespace ps::psctl
