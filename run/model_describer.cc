#include "run/model_describer.h"

#include <fmt/core.h>

#include <chrono>

#include "ps/base/text.h"
#include "run/directory/model_card.h"
#include "worker/use/card_of_job.h"

namespace ps::run {
namespace {

/// The training has ended, and shards wait meanwhile: less than what they take for a loss.
constexpr auto kPatience = std::chrono::seconds(5);

/// Pictures are read into memory for their mean and deviation, and the host may be a small one.
constexpr uint64_t kPicturesMax = uint64_t{1} << 30;

}  // namespace

ModelDescriber::~ModelDescriber() {
  progress_.Cancel();  // the future waits for its thread
}

void ModelDescriber::Start() {
  if (config_.worker.program.empty()) {
    found_ = std::async(std::launch::async, [this] { return Find(); });
  }
}

Result<ModelDescriber::Card> ModelDescriber::Find() {
  Result<Card> kept = ReadModelCard(path_);
  if (kept.ok() || kept.status().code() != StatusCode::kNotFound) {
    return kept;
  }
  const uint64_t bytes = worker::BytesForCard(config_.data, data_);
  if (bytes > kPicturesMax) {
    return Status::Unsupported(fmt::format(
        "its pictures are {}, more than the {} that are read for it; psctl evaluate and the others "
        "ask the job beside the file",
        FormatBytes(bytes),
        FormatBytes(kPicturesMax)));
  }
  PS_ASSIGN(const worker::ModelCard card, worker::CardOfJob(config_, &progress_, &data_));
  Card metadata = worker::MetadataOf(card);
  PS_TRY(WriteModelCard(path_, metadata));
  return metadata;
}

std::map<std::string, std::string> ModelDescriber::Take() {
  if (!found_.valid()) {
    return {};
  }
  if (found_.wait_for(kPatience) != std::future_status::ready) {
    log_.Warning("model_not_described", {{"why", "the data are still being read for it"}});
    return {};
  }
  const Result<Card>& found = found_.get();
  if (!found.ok()) {
    log_.Warning("model_not_described", {{"why", found.status()}});
    return {};
  }
  return *found;
}

}  // namespace ps::run
