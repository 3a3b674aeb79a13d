#include "ps/coordinator/checkpoints/model_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string_view>
#include <utility>

#include "checkpoint/model/kept_tensors.h"
#include "ps/base/text.h"

namespace ps::coordinator {
namespace {

constexpr int64_t kPieceElements = 1 << 16;  // of a tensor, in memory at once

std::string NameText(std::string_view name) {
  return fmt::format("\"{}\"", Clip(Printable(name), 120));
}

Status CheckSameShape(const checkpoint::StoredTensor& stored, const std::vector<int64_t>& shape) {
  return stored.shape == shape ? Status::Ok()
                               : Status::InvalidArgument(fmt::format(
                                     "its tensor {} has shape {}, the model's has {}",
                                     NameText(stored.name),
                                     Clip(checkpoint::ShapeText(stored.shape), 80),
                                     checkpoint::ShapeText(shape)));
}

}  // namespace

Result<std::unique_ptr<ModelFileSource>> ModelFileSource::Open(
    const std::string& path, std::span<const TensorSpec> tensors, const Options& options) {
  PS_ASSIGN(checkpoint::SafetensorsReader reader, checkpoint::SafetensorsReader::Open(path));
  std::unique_ptr<ModelFileSource> source(new ModelFileSource(
      std::move(reader), std::vector(tensors.begin(), tensors.end()), options.seed));
  if (!options.kept_path.empty()) {
    PS_TRY(source->SetKeptApart(options.kept_path).Annotate(path));
  }
  PS_ASSIGN(
      source->match_,
      checkpoint::MatchTensors(source->header_, source->tensors_, options.take).Annotate(path));
  return source;
}

/// Takes what isn't trained, and other names of what is, out of the header.
Status ModelFileSource::SetKeptApart(const std::string& kept_path) {
  PS_ASSIGN(kept_, checkpoint::SafetensorsReader::Open(kept_path));
  PS_ASSIGN(const checkpoint::KeptTensors kept, checkpoint::ParseKept(kept_->header()));
  const auto take = [this](std::string_view name) -> std::optional<checkpoint::StoredTensor> {
    const auto it = std::ranges::find(header_.tensors, name, &checkpoint::StoredTensor::name);
    if (it == header_.tensors.end()) {
      return std::nullopt;
    }
    checkpoint::StoredTensor tensor = std::move(*it);
    header_.tensors.erase(it);
    return tensor;
  };
  for (const checkpoint::StoredTensor& tensor : kept_->header().tensors) {
    std::optional<checkpoint::StoredTensor> stored = take(tensor.name);
    if (stored && !kept.counters.contains(tensor.name)) {
      PS_TRY(CheckSameShape(*stored, tensor.shape));
      pairs_.push_back({*std::move(stored), tensor, &*kept_});
    }
  }
  for (const auto& [alias, name] : kept.aliases) {
    std::optional<checkpoint::StoredTensor> stored = take(alias);
    const checkpoint::StoredTensor* const own = header_.Find(name);
    if (!stored) {
      continue;
    }
    if (own != nullptr) {
      PS_TRY(CheckSameShape(*stored, own->shape));
      pairs_.push_back({*std::move(stored), *own, &reader_});
      continue;
    }
    stored->name = name;
    header_.tensors.push_back(*std::move(stored));
  }
  return Status::Ok();
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
  for (const Pair& pair : pairs_) {
    PS_TRY(CheckPair(pair).Annotate(reader_.path()));
  }
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

/// Whether the file has the same values twice.
Status ModelFileSource::CheckPair(const Pair& pair) const {
  PS_ASSIGN(const bool is_same, HaveSameValues(pair));
  if (is_same) {
    return Status::Ok();
  }
  const std::string name = NameText(pair.stored.name);
  if (pair.where == &reader_) {
    return Status::InvalidArgument(fmt::format(
        "its tensors {} and {} are one tensor of the model and have different values; allowed: a "
        "file that has one of them, or the same values twice",
        name,
        NameText(pair.other.name)));
  }
  return Status::InvalidArgument(fmt::format(
      "its tensor {} has other values than worker.program has for it, and nobody trains it, so "
      "each worker has its own; allowed: let the program load the file before it makes its worker "
      "(model.load_state_dict), or leave the tensor out of the file",
      name));
}

/// As they are where both have one type, else as f32.
Result<bool> ModelFileSource::HaveSameValues(const Pair& pair) const {
  const uint64_t bytes = pair.stored.byte_count();
  if (pair.stored.type == pair.other.type) {
    std::vector<std::byte> own(kPieceElements);
    std::vector<std::byte> other(kPieceElements);
    for (uint64_t at = 0; at < bytes; at += kPieceElements) {
      const auto size = std::min<uint64_t>(kPieceElements, bytes - at);
      PS_TRY(reader_.ReadBytes(pair.stored, at, std::span(own).first(size)));
      PS_TRY(pair.where->ReadBytes(pair.other, at, std::span(other).first(size)));
      if (std::memcmp(own.data(), other.data(), size) != 0) {
        return false;
      }
    }
    return true;
  }
  if (!checkpoint::IsFloat(pair.stored.type) || !checkpoint::IsFloat(pair.other.type)) {
    return false;
  }
  std::vector<float> own(kPieceElements);
  std::vector<float> other(kPieceElements);
  for (int64_t begin = 0; begin < pair.stored.element_count; begin += kPieceElements) {
    const auto count = std::min(kPieceElements, pair.stored.element_count - begin);
    const auto size = static_cast<size_t>(count);
    PS_TRY(reader_.Read(pair.stored, begin, std::span(own).first(size)));
    PS_TRY(pair.where->Read(pair.other, begin, std::span(other).first(size)));
    if (!std::equal(own.begin(), own.begin() + count, other.begin())) {
      return false;
    }
  }
  return true;
}

Status ModelFileSink::Begin(std::map<std::string, std::string> metadata) {
  Abandon();
  outcome_.reset();
  if (more_) {
    metadata.merge(more_());
  }
  PS_ASSIGN(
      checkpoint::ModelWriter writer,
      checkpoint::ModelWriter::Create(
          path_, tensors_, checkpoint::ElementType::kF32, frozen_path_, std::move(metadata)));
  writer_ = std::make_unique<checkpoint::ModelWriter>(std::move(writer));
  return Status::Ok();
}

Status ModelFileSink::Write(uint32_t tensor, int64_t begin, std::span<const float> values) {
  return writer_->Write(tensor, begin, values);
}

void ModelFileSink::Finish() {
  finishing_ = std::async(std::launch::async, [this] { return writer_->Finish(); });
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
