#include "psctl/models/predictions.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "ps/base/text.h"
#include "worker/use/trained_model.h"

namespace ps::psctl {
namespace {

/// Bytes that a terminal or a table cannot show by their numbers.
std::string TokenText(const std::string& bytes) {
  if (!bytes.empty() && Printable(bytes) == bytes) {
    return bytes;
  }
  std::string text;
  for (const char byte : bytes) {
    text += fmt::format("<0x{:02x}>", static_cast<uint8_t>(byte));
  }
  return text;
}

Status NoNumbers(const std::string& name) {
  return Status::Corruption(
      fmt::format("the model gives values for sample {} that are no numbers", Printable(name)));
}

}  // namespace

std::string CsvCell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) {
    return text;
  }
  std::string cell = "\"";
  for (const char c : text) {
    cell += c == '"' ? std::string("\"\"") : std::string(1, c);
  }
  return cell + "\"";
}

Result<Predictions> Predictions::Of(
    const worker::ModelCard& card, const worker::Model& model, uint32_t top) {
  if (top > 0 && card.task() != proto::Task::kClasses) {
    return Status::InvalidArgument(fmt::format(
        "--top {} is for classes, and the model gives {}; leave it out",
        top,
        card.task() == proto::Task::kNumbers ? "numbers" : "each label's own probability"));
  }
  if (int64_t{top} > model.classes) {
    return Status::InvalidArgument(fmt::format(
        "--top {}; the model has {} classes, so allowed is 1 to {}",
        top,
        model.classes,
        model.classes));
  }
  Predictions predictions(card, std::max<uint32_t>(top, 1));
  if (card.data.format == proto::DatasetFormat::kText) {
    PS_ASSIGN(worker::Tokens tokens, worker::Tokens::Of(card));
    predictions.tokens_.emplace(std::move(tokens));
  }
  predictions.is_all_ = top == 0 && model.labels == 1;
  predictions.order_.resize(static_cast<size_t>(model.classes));
  return predictions;
}

std::string Predictions::Header() const {
  std::string text = card_.data.format == proto::DatasetFormat::kPictures ? "file" : "sample";
  if (task_ != proto::Task::kClasses) {
    const bool has_names = !card_.label_columns.empty();
    const char* const front = task_ == proto::Task::kLabels ? "p_" : has_names ? "" : "value_";
    for (int64_t i = 0; i < card_.classes; ++i) {
      text += "," + CsvCell(front + card_.TargetName(i));
    }
    return text + "\n";
  }
  if (!is_all_) {
    for (uint32_t i = 1; i <= top_; ++i) {
      text += fmt::format(",{}_{},probability_{}", card_.labels > 1 ? "token" : "class", i, i);
    }
    return text + "\n";
  }
  text += ",class,probability";
  for (int64_t i = 0; i < card_.classes; ++i) {
    text += "," + CsvCell("p_" + card_.ClassName(i));
  }
  return text + "\n";
}

std::string Predictions::NameOf(uint32_t number) const {
  return CsvCell(tokens_ ? TokenText(tokens_->TextOf(number)) : card_.ClassName(number));
}

Status Predictions::AppendTargets(
    const std::string& name, std::span<const float> outputs, std::string* text) const {
  if (!std::ranges::all_of(outputs, [](float output) { return std::isfinite(output); })) {
    return NoNumbers(name);
  }
  *text += CsvCell(name);
  for (const float output : outputs) {
    *text += task_ == proto::Task::kLabels ? fmt::format(",{:.7g}", worker::Sigmoid(output))
                                           : fmt::format(",{}", output);
  }
  *text += "\n";
  return Status::Ok();
}

Status Predictions::Append(
    const std::string& name, std::span<const float> outputs, std::string* text) {
  if (task_ != proto::Task::kClasses) {
    return AppendTargets(name, outputs, text);
  }
  // A sample may have many tokens: the last one's is the one that nobody knows.
  const std::span<const float> last = outputs.last(order_.size());
  if (!worker::Softmax(last, &probabilities_)) {
    return NoNumbers(name);
  }
  std::iota(order_.begin(), order_.end(), 0);
  std::partial_sort(
      order_.begin(), order_.begin() + top_, order_.end(), [&](uint32_t a, uint32_t b) {
        return last[a] > last[b] || (last[a] == last[b] && a < b);
      });
  *text += CsvCell(name);
  for (uint32_t i = 0; i < top_; ++i) {
    *text += fmt::format(",{},{:.7g}", NameOf(order_[i]), probabilities_[order_[i]]);
  }
  if (is_all_) {
    for (const double probability : probabilities_) {
      *text += fmt::format(",{:.7g}", probability);
    }
  }
  *text += "\n";
  return Status::Ok();
}

}  // namespace ps::psctl
