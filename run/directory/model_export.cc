#include "run/directory/model_export.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "checkpoint/model/model_writer.h"
#include "checkpoint/storage/rocksdb_storage.h"
#include "ps/proto/job/job_config.h"

namespace ps::run {

using checkpoint::Manifest;
using checkpoint::Reader;

std::string JobName(const Manifest& manifest) {
  const auto config = proto::ParseJobConfig(manifest.config_json, "manifest");
  return config.ok() ? config->name : "?";
}

Status ExportModel(Reader& reader, const Manifest& manifest, const ModelFile& file) {
  std::map<std::string, std::string> metadata = {
      {"format", "pt"},
      {"job", JobName(manifest)},
      {"checkpoint", std::to_string(manifest.id)},
      {"software", manifest.software}};
  metadata.insert(file.card.begin(), file.card.end());
  PS_ASSIGN(
      checkpoint::ModelWriter writer,
      checkpoint::ModelWriter::Create(
          file.path,
          manifest.tensors,
          file.is_half ? checkpoint::ElementType::kF16 : checkpoint::ElementType::kF32,
          file.frozen_path,
          std::move(metadata)));
  for (uint32_t tensor = 0; tensor < manifest.tensors.size(); ++tensor) {
    PS_TRY(reader.ReadTensor(manifest, tensor, [&](uint64_t begin, std::span<const float> values) {
      return writer.Write(tensor, static_cast<int64_t>(begin), values);
    }));
  }
  return writer.Finish();
}

Result<Manifest> ExportNewestModel(const std::string& path, const ModelFile& file, uint64_t first) {
  const auto storage = checkpoint::MakeRocksDbStorage();
  PS_ASSIGN(const std::unique_ptr<Reader> reader, Reader::Open(*storage, path));
  Status why = Status::NotFound(fmt::format("no checkpoint in {}", path));
  std::vector<checkpoint::CheckpointId> ids(reader->ids().rbegin(), reader->ids().rend());
  if (const auto it = std::ranges::find(ids, first); it != ids.end()) {
    std::rotate(ids.begin(), it, it + 1);
  }
  for (const checkpoint::CheckpointId id : ids) {
    const auto exported = [&]() -> Result<Manifest> {
      PS_ASSIGN(Manifest manifest, reader->ReadManifest(id));
      PS_TRY(ExportModel(*reader, manifest, file));
      return manifest;
    };
    Result<Manifest> manifest = exported();
    if (manifest.ok()) {
      return manifest;
    }
    why = id == ids.front() ? manifest.status() : why;
  }
  return why;
}

}  // namespace ps::run
