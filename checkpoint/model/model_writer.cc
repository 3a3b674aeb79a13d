#include "checkpoint/model/model_writer.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <utility>

#include "checkpoint/model/kept_tensors.h"
#include "ps/json/json_reader.h"

namespace ps::checkpoint {
namespace {

constexpr size_t kCopiedBytes = size_t{256} << 10;

}  // namespace

Result<ModelWriter> ModelWriter::Create(
    const std::string& path,
    std::span<const TensorSpec> trained,
    ElementType type,
    const std::string& kept_path,
    std::map<std::string, std::string> metadata) {
  std::vector<StoredTensor> tensors = HeaderOf(trained, type, {}).tensors;
  std::vector<std::vector<size_t>> places;
  for (size_t i = 0; i < trained.size(); ++i) {
    places.push_back({i});
  }
  std::optional<SafetensorsReader> kept;
  if (!kept_path.empty()) {
    PS_ASSIGN(kept, SafetensorsReader::Open(kept_path));
    PS_ASSIGN(const KeptTensors rest, ParseKept(kept->header()).Annotate(kept_path));
    for (StoredTensor tensor : kept->header().tensors) {
      const bool is_value = tensor.type == ElementType::kF32 && !rest.as_is.contains(tensor.name);
      tensor.type = is_value ? type : tensor.type;
      tensors.push_back(std::move(tensor));
    }
    for (const auto& [alias, name] : rest.aliases) {
      const auto it = std::ranges::find(trained, name, &TensorSpec::name);
      if (it == trained.end()) {
        return Status::InvalidArgument(fmt::format(
            "{}: {} is another name of {}, which the model doesn't have; allowed: the file of the "
            "same run",
            kept_path,
            Quoted(alias),
            Quoted(name)));
      }
      places[static_cast<size_t>(it - trained.begin())].push_back(tensors.size());
      tensors.push_back(HeaderOf(std::span(&*it, 1), type, {}).tensors.front());
      tensors.back().name = alias;
    }
  }
  std::set<std::string_view> names;
  for (const StoredTensor& tensor : tensors) {
    if (!names.insert(tensor.name).second) {
      return Status::InvalidArgument(fmt::format(
          "{}: {} is a tensor that is trained, too; allowed: the file of the same run",
          kept_path,
          Quoted(tensor.name)));
    }
  }
  PS_ASSIGN(
      SafetensorsWriter writer,
      SafetensorsWriter::Create(path, std::move(tensors), std::move(metadata)));
  return ModelWriter(std::move(writer), std::move(kept), std::move(places));
}

Status ModelWriter::Write(size_t tensor, int64_t begin, std::span<const float> values) {
  for (const size_t place : places_[tensor]) {
    PS_TRY(writer_.Write(place, begin, values));
  }
  return Status::Ok();
}

Status ModelWriter::CopyKept(size_t number, const StoredTensor& tensor) {
  const uint64_t element = ElementBytes(tensor.type);
  std::vector<std::byte> piece(kCopiedBytes);
  std::vector<float> values;
  for (uint64_t at = 0; at < tensor.byte_count(); at += kCopiedBytes) {
    const auto bytes =
        std::span(piece).first(std::min<uint64_t>(kCopiedBytes, tensor.byte_count() - at));
    if (writer_.TypeOf(number) == tensor.type) {
      PS_TRY(kept_->ReadBytes(tensor, at, bytes));
      PS_TRY(writer_.WriteBytes(number, at, bytes));
      continue;
    }
    const auto begin = static_cast<int64_t>(at / element);
    values.resize(bytes.size() / element);
    PS_TRY(kept_->Read(tensor, begin, values));
    PS_TRY(writer_.Write(number, begin, values));
  }
  return Status::Ok();
}

Status ModelWriter::Finish() {
  if (kept_) {
    size_t number = places_.size();
    for (const StoredTensor& tensor : kept_->header().tensors) {
      PS_TRY(CopyKept(number++, tensor));
    }
  }
  return writer_.Finish();
}

}  // namespace ps::checkpoint
