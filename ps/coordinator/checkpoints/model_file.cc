#include "ps/coordinator/checkpoints/model_file.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "checkpoint/model/safetensors_copy.h"

namespace ps::coordinator {
namespace {

constexpr int64_t kPieceElements = 1 << 16;  // of a tensor, in memory at once

}  // namespace

Result<std::unique_ptr<ModelFileSource>> ModelFileSource::Open(
    const std::string& path, std::span<const TensorSpec> tensors, const Options& options) {
  PS_ASSIGN(checkpoint::SafetensorsReader reader, checkpoint::SafetensorsReader::Open(path));
  std::vector<TensorSpec> allowed(tensors.begin(), tensors.end());
  for (const TensorSpec& spec : options.frozen) {
    if (reader.header().Find(spec.name) != nullptr) {
      allowed.push_back(spec);
    }
  }
  std::unique_ptr<ModelFileSource> source(
      new ModelFileSource(std::move(reader), std::move(allowed), options.seed));
  PS_ASSIGN(
      source->match_,
      checkpoint::MatchTensors(source->reader_.header(), source->tensors_, options.take)
          .Annotate(path));
  return source;
}

Result<std::unique_ptr<ModelFileSource>> ModelFileSource::Open(
    const proto::JobConfig& config, std::span<const TensorSpec> tensors) {
  const auto open = [&](checkpoint::TakeRule take) {
    return Open(config.model.from, tensors, {.take = take, .seed = config.train.seed})
        .Annotate("model.from");
  };
  if (config.model.take == proto::TakeKind::kFitting) {
    return open(checkpoint::TakeRule::kFitting);
  }
  auto source = open(checkpoint::TakeRule::kAll);
  if (source.status().code() == StatusCode::kInvalidArgument &&
      open(checkpoint::TakeRule::kFitting).ok()) {
    return Status::InvalidArgument(
        std::string(source.status().message()) +
        "; with \"take\": \"fitting\" the model takes what fits, and the rest is drawn");
  }
  return source;
}

Status ModelFileSource::Read(uint32_t tensor, int64_t begin, std::span<float> out) {
  if (const checkpoint::StoredTensor* const stored = match_.stored[tensor]; stored != nullptr) {
    return reader_.Read(*stored, begin, out);
  }
  InitializeTensor(
      tensors_[tensor], tensor, seed_, begin, out.data(), static_cast<int64_t>(out.size()));
  return Status::Ok();
}

Status ModelFileSource::CheckValues() {
  std::vector<float> piece(kPieceElements);
  for (uint32_t tensor = 0; tensor < tensors_.size(); ++tensor) {
    const int64_t count = tensors_[tensor].element_count();
    for (int64_t begin = 0; begin < count; begin += kPieceElements) {
      const auto size = static_cast<size_t>(std::min(kPieceElements, count - begin));
      PS_TRY(Read(tensor, begin, std::span(piece).first(size)));
    }
  }
  return Status::Ok();
}

Status ModelFileSink::Begin(std::map<std::string, std::string> metadata) {
  Abandon();
  outcome_.reset();
  if (more_) {
    metadata.merge(more_());
  }
  std::vector<TensorSpec> tensors = tensors_;
  if (!frozen_path_.empty()) {
    PS_ASSIGN(frozen_, checkpoint::SafetensorsReader::Open(frozen_path_));
    std::ranges::move(checkpoint::TensorsOf(*frozen_), std::back_inserter(tensors));
  }
  PS_ASSIGN(
      checkpoint::SafetensorsWriter writer,
      checkpoint::SafetensorsWriter::Create(
          path_, tensors, checkpoint::ElementType::kF32, std::move(metadata)));
  writer_ = std::make_unique<checkpoint::SafetensorsWriter>(std::move(writer));
  return Status::Ok();
}

Status ModelFileSink::Write(uint32_t tensor, int64_t begin, std::span<const float> values) {
  return writer_->Write(tensor, begin, values);
}

void ModelFileSink::Finish() {
  finishing_ = std::async(std::launch::async, [this] {
    if (frozen_) {
      PS_TRY(checkpoint::CopyTensors(*frozen_, tensors_.size(), writer_.get()));
    }
    return writer_->Finish();
  });
}

std::optional<Status> ModelFileSink::Outcome() {
  if (finishing_.valid() &&
      finishing_.wait_for(std::chrono::seconds(0)) == std::future_status::ready) {
    outcome_ = finishing_.get();
    writer_.reset();
  }
  return outcome_;
}

void ModelFileSink::Abandon() {
  if (finishing_.valid()) {
    finishing_.get().Ignore("nobody waits for the file any more");
  }
  writer_.reset();
}

}  // namespace ps::coordinator
