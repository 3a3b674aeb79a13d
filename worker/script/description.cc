#include "worker/script/description.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "checkpoint/model/kept_tensors.h"
#include "checkpoint/model/safetensors.h"
#include "ps/base/crc32c.h"
#include "ps/base/text.h"
#include "ps/json/json_value.h"
#include "ps/json/json_writer.h"

namespace ps::worker {
namespace {

namespace fs = std::filesystem;

constexpr char kKey[] = "spotps_worker";
constexpr char kFrozenKey[] = "spotps_frozen_crc";
constexpr int kVersion = 1;
constexpr std::string_view kRules[] = {"optimizer", "average"};

std::string Print(const Description& description) {
  JsonWriter json(JsonForm::kOneLine);
  json.BeginObject();
  json.Field("version", kVersion);
  json.Field("train_samples", description.train_samples);
  json.Field("test_samples", description.test_samples);
  json.Field("local_steps", description.local_steps);
  json.Field("minibatch", description.minibatch);
  json.Field("optimizer", description.optimizer_json);
  json.BeginList("tensors");
  for (const TensorSpec& tensor : description.tensors) {
    json.BeginObject();
    json.Field("name", tensor.name);
    json.Field("rule", kRules[static_cast<size_t>(tensor.rule)]);
    json.Field("rate", tensor.average_rate);
    json.Field("decay", tensor.has_weight_decay);
    json.EndObject();
  }
  json.EndList();
  json.EndObject();
  return std::move(json).Take();
}

template <typename T>
std::optional<T> NumberAt(const JsonValue& object, std::string_view name) {
  const JsonValue* const value = object.Find(name);
  T number{};
  if (value == nullptr || value->kind != JsonValue::Kind::kNumber) {
    return std::nullopt;
  }
  const char* const end = value->text.data() + value->text.size();
  const auto parsed = std::from_chars(value->text.data(), end, number);
  return parsed.ec == std::errc() && parsed.ptr == end ? std::optional(number) : std::nullopt;
}

std::optional<std::string> TextAt(const JsonValue& object, std::string_view name) {
  const JsonValue* const value = object.Find(name);
  return value != nullptr && value->kind == JsonValue::Kind::kText ? std::optional(value->text)
                                                                   : std::nullopt;
}

/// Without the shape.
std::optional<TensorSpec> TensorOf(const JsonValue& value) {
  if (value.kind != JsonValue::Kind::kObject) {
    return std::nullopt;
  }
  const std::optional<std::string> name = TextAt(value, "name");
  const std::optional<std::string> rule = TextAt(value, "rule");
  const std::optional<float> rate = NumberAt<float>(value, "rate");
  const JsonValue* const decay = value.Find("decay");
  const auto known = rule ? std::ranges::find(kRules, *rule) : std::end(kRules);
  if (!name || known == std::end(kRules) || !rate || decay == nullptr) {
    return std::nullopt;
  }
  TensorSpec tensor;
  tensor.name = *name;
  tensor.rule = static_cast<UpdateRule>(known - std::begin(kRules));
  tensor.average_rate = *rate;
  tensor.has_weight_decay = decay->text == "true";
  const bool is_rate_ok =
      tensor.rule == UpdateRule::kAverage ? *rate > 0 && *rate <= 1 : *rate == 0;
  return is_rate_ok ? std::optional(tensor) : std::nullopt;
}

std::string ShapeText(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

/// "fc.weight of shape [10, 64]".
template <typename Tensor>
std::string TensorText(const Tensor& tensor) {
  return fmt::format("{} of shape {}", Printable(tensor.name), ShapeText(tensor.shape));
}

/// What the file of frozen tensors says of them; 0: nothing, as those of older programs.
uint32_t FrozenSumIn(const std::map<std::string, std::string>& metadata) {
  const auto found = metadata.find(kFrozenKey);
  uint32_t crc = 0;
  if (found != metadata.end()) {
    const std::string& text = found->second;
    std::from_chars(text.data(), text.data() + text.size(), crc);
  }
  return crc;
}

Status WriteAll(
    const std::vector<TensorSpec>& tensors,
    std::span<const float* const> values,
    checkpoint::SafetensorsWriter* writer) {
  for (size_t i = 0; i < values.size(); ++i) {
    PS_TRY(writer->Write(i, 0, {values[i], static_cast<size_t>(tensors[i].element_count())}));
  }
  return Status::Ok();
}

Status WriteFrozen(
    const std::string& path, const Description& description, const DescribedValues& values) {
  std::vector<checkpoint::StoredTensor> tensors =
      checkpoint::HeaderOf(description.frozen, checkpoint::ElementType::kF32, {}).tensors;
  checkpoint::KeptTensors kept;
  kept.aliases = description.aliases;
  for (const KeptTensor& tensor : description.kept) {
    const auto elements = tensor.byte_count() / checkpoint::ElementBytes(tensor.type);
    tensors.push_back({tensor.name, tensor.type, tensor.shape, static_cast<int64_t>(elements)});
    kept.as_is.insert(tensor.name);
    if (tensor.is_counter) {
      kept.counters.insert(tensor.name);
    }
  }
  std::map<std::string, std::string> metadata = {checkpoint::PrintKept(kept)};
  if (const uint32_t sum = FrozenSum(description, values); sum != 0) {
    metadata[kFrozenKey] = std::to_string(sum);
  }
  PS_ASSIGN(
      checkpoint::SafetensorsWriter writer,
      checkpoint::SafetensorsWriter::Create(path, std::move(tensors), std::move(metadata)));
  PS_TRY(WriteAll(description.frozen, values.frozen, &writer));
  for (size_t i = 0; i < values.kept.size(); ++i) {
    const auto* const bytes = static_cast<const std::byte*>(values.kept[i]);
    PS_TRY(writer.WriteBytes(
        description.frozen.size() + i, 0, {bytes, description.kept[i].byte_count()}));
  }
  return writer.Finish();
}

/// The rest of a description, out of the file at FrozenPath.
Status ReadFrozen(const std::string& path, Description* description) {
  PS_ASSIGN(const checkpoint::SafetensorsReader frozen, checkpoint::SafetensorsReader::Open(path));
  PS_ASSIGN(
      const checkpoint::KeptTensors kept, checkpoint::ParseKept(frozen.header()).Annotate(path));
  for (const checkpoint::StoredTensor& tensor : frozen.header().tensors) {
    if (kept.as_is.contains(tensor.name)) {
      const bool is_counter = kept.counters.contains(tensor.name);
      description->kept.push_back({tensor.name, tensor.type, tensor.shape, is_counter});
    } else {
      description->frozen.push_back({tensor.name, tensor.shape});
    }
  }
  description->aliases = kept.aliases;
  description->frozen_crc = FrozenSumIn(frozen.header().metadata);
  return Status::Ok();
}

}  // namespace

uint64_t KeptTensor::byte_count() const {
  uint64_t count = checkpoint::ElementBytes(type);
  for (const int64_t size : shape) {
    count *= static_cast<uint64_t>(size);
  }
  return count;
}

uint32_t FrozenSum(const Description& description, const DescribedValues& values) {
  struct Part {
    std::string text;  // that of an f32 tensor has no type: checkpoints have such sums
    std::span<const std::byte> bytes;
  };

  std::map<std::string, Part> parts;
  for (size_t i = 0; i < description.frozen.size(); ++i) {
    const TensorSpec& tensor = description.frozen[i];
    const auto elements = static_cast<size_t>(tensor.element_count());
    parts[tensor.name] = {TensorText(tensor), std::as_bytes(std::span(values.frozen[i], elements))};
  }
  for (size_t i = 0; i < description.kept.size(); ++i) {
    const KeptTensor& tensor = description.kept[i];
    if (tensor.is_compared) {
      const auto* const bytes = static_cast<const std::byte*>(values.kept[i]);
      parts[tensor.name] = {
          fmt::format("{} in {}", TensorText(tensor), checkpoint::ElementTypeName(tensor.type)),
          {bytes, tensor.byte_count()}};
    }
  }
  uint32_t crc = 0;
  for (const auto& [name, part] : parts) {
    crc = Crc32c(std::as_bytes(std::span(part.text)), crc);
    crc = Crc32c(part.bytes, crc);
  }
  return parts.empty() ? 0 : std::max(crc, 1U);
}

Result<checkpoint::SafetensorsWriter> CreateDescription(
    const std::string& path, const Description& description) {
  return checkpoint::SafetensorsWriter::Create(
      path,
      description.tensors,
      checkpoint::ElementType::kF32,
      {{"format", "pt"}, {kKey, Print(description)}});
}

Status WriteDescription(
    const std::string& path, const Description& description, const DescribedValues& values) {
  if (description.has_more()) {  // first, so that a description is whole
    PS_TRY(WriteFrozen(FrozenPath(path), description, values));
  }
  PS_ASSIGN(checkpoint::SafetensorsWriter writer, CreateDescription(path, description));
  PS_TRY(WriteAll(description.tensors, values.tensors, &writer));
  return writer.Finish();
}

std::string FrozenPath(const std::string& description) {
  return fs::path(description).replace_extension(".frozen.safetensors").string();
}

Result<bool> HasDescription(const std::string& path) {
  PS_ASSIGN(const checkpoint::SafetensorsReader reader, checkpoint::SafetensorsReader::Open(path));
  return reader.header().metadata.contains(kKey);
}

Result<Description> ReadDescription(const std::string& path) {
  const auto odd = [&path](std::string_view why) {
    return Status::InvalidArgument(
        fmt::format("{} {}; allowed: a file that the job's program wrote itself", path, why));
  };
  PS_ASSIGN(const checkpoint::SafetensorsReader reader, checkpoint::SafetensorsReader::Open(path));
  const auto& metadata = reader.header().metadata;
  const auto found = metadata.find(kKey);
  if (found == metadata.end()) {
    return odd("is no description of a worker's program");
  }
  const Result<JsonValue> root = ParseJson(found->second, path);
  if (!root.ok() || root->kind != JsonValue::Kind::kObject) {
    return odd("has a description that is no JSON object");
  }
  if (NumberAt<int>(*root, "version") != kVersion) {
    return odd(fmt::format("has a description of another version than {}", kVersion));
  }
  Description description;
  const auto train = NumberAt<uint64_t>(*root, "train_samples");
  const auto test = NumberAt<uint64_t>(*root, "test_samples");
  const auto steps = NumberAt<uint32_t>(*root, "local_steps");
  const auto optimizer = TextAt(*root, "optimizer");
  const JsonValue* const tensors = root->Find("tensors");
  if (!train || !test || !steps || !optimizer || tensors == nullptr ||
      tensors->kind != JsonValue::Kind::kList) {
    return odd("has a description that lacks a field");
  }
  description.train_samples = *train;
  description.test_samples = *test;
  description.local_steps = *steps;
  description.minibatch = NumberAt<uint32_t>(*root, "minibatch").value_or(0);  // older ones lack it
  description.optimizer_json = *optimizer;
  std::set<std::string, std::less<>> names;
  for (const JsonValue& value : tensors->children) {
    std::optional<TensorSpec> tensor = TensorOf(value);
    const checkpoint::StoredTensor* const stored =
        tensor ? reader.header().Find(tensor->name) : nullptr;
    if (stored == nullptr) {
      return odd("describes a tensor that it has not, or not in full");
    }
    if (!names.insert(tensor->name).second) {
      return odd("describes a tensor twice");
    }
    tensor->shape = stored->shape;
    description.tensors.push_back(*std::move(tensor));
  }
  if (description.tensors.size() != reader.header().tensors.size()) {
    return odd("has tensors that it doesn't describe");
  }
  if (std::error_code error; fs::exists(FrozenPath(path), error)) {
    PS_TRY(ReadFrozen(FrozenPath(path), &description));
  }
  return description;
}

Status CheckSameTensors(std::span<const TensorSpec> own, std::span<const TensorSpec> job) {
  for (size_t i = 0; i < std::max(own.size(), job.size()); ++i) {
    const bool is_same = i < own.size() && i < job.size() && own[i].name == job[i].name &&
                         own[i].shape == job[i].shape && own[i].rule == job[i].rule;
    if (!is_same) {
      return Status::InvalidArgument(fmt::format(
          "tensor {} is {} here and {} in the job; all workers have to run the same script, with "
          "the same words (worker.program)",
          i,
          i < own.size() ? TensorText(own[i]) : "missing",
          i < job.size() ? TensorText(job[i]) : "missing"));
    }
  }
  return Status::Ok();
}

}  // namespace ps::worker
