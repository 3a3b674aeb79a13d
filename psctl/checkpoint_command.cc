#include "psctl/checkpoint_command.h"

#include <fmt/core.h>

#include <filesystem>
#include <memory>
#include <vector>

#include "checkpoint/maintenance.h"
#include "checkpoint/reader.h"
#include "checkpoint/remote/place.h"
#include "checkpoint/rocksdb_storage.h"
#include "checkpoint/safetensors.h"
#include "ps/base/text.h"
#include "ps/proto/job_config.h"
#include "psctl/checkpoint_view.h"
#include "psctl/files.h"
#include "psctl/remote_copies.h"

namespace ps::psctl {
namespace {

using checkpoint::CheckpointId;
using checkpoint::Manifest;
using checkpoint::Reader;

/// Errors: kNotFound.
Result<CheckpointId> ChooseCheckpoint(CheckpointId id, const Reader& reader) {
  if (id == 0 && reader.ids().empty()) {
    return Status::NotFound("no checkpoint in " + reader.path() + " is complete");
  }
  return id == 0 ? reader.ids().back() : id;
}

Result<Manifest> ReadChosen(CheckpointId chosen, Reader& reader) {
  PS_ASSIGN(const CheckpointId id, ChooseCheckpoint(chosen, reader));
  return reader.ReadManifest(id);
}

std::string JobName(const Manifest& manifest) {
  const auto config = proto::ParseJobConfig(manifest.config_json, "manifest");
  return config.ok() ? config->name : "?";
}

int List(const CheckpointCommand& command, Reader& reader, const Console& console) {
  std::vector<Manifest> manifests;
  int code = kExitOk;
  for (const CheckpointId id : reader.ids()) {
    Result<Manifest> manifest = reader.ReadManifest(id);
    if (manifest.ok()) {
      manifests.push_back(std::move(manifest).value());
    } else {
      code = Fail(console, manifest.status());
    }
  }
  if (command.is_json) {
    console.out(CheckpointsToJson(manifests));
  } else if (manifests.empty() && code == kExitOk) {
    console.err("no checkpoint in " + reader.path() + " is complete yet\n");
  } else {
    console.out(RenderCheckpoints(manifests, console.out_width));
  }
  return code;
}

int Show(const CheckpointCommand& command, Reader& reader, const Console& console) {
  const Result<Manifest> manifest = ReadChosen(command.first, reader);
  if (!manifest.ok()) {
    return Fail(console, manifest.status());
  }
  console.out(RenderCheckpoint(*manifest, JobName(*manifest), console.out_width));
  return kExitOk;
}

int Verify(const CheckpointCommand& command, Reader& reader, const Console& console) {
  std::vector<CheckpointId> ids = reader.ids();
  if (!command.is_all) {
    const Result<CheckpointId> id = ChooseCheckpoint(command.first, reader);
    if (!id.ok()) {
      return Fail(console, id.status());
    }
    ids = {*id};
  }
  std::vector<Verified> all;
  int code = kExitOk;
  for (const CheckpointId id : ids) {
    Verified verified;
    verified.id = id;
    verified.damages = reader.Verify(id);
    if (const auto manifest = reader.ReadManifest(id); manifest.ok()) {
      verified.chunks = manifest->chunks.size();
      verified.logical_bytes = TotalStats(*manifest).logical_bytes;
    }
    code = verified.damages.empty() ? code : kExitFailed;
    if (!command.is_json) {
      console.out(RenderVerified(verified));
    }
    all.push_back(std::move(verified));
  }
  if (command.is_json) {
    console.out(VerifiedToJson(all));
  }
  return code;
}

int Diff(const CheckpointCommand& command, Reader& reader, const Console& console) {
  const Result<Manifest> first = ReadChosen(command.first, reader);
  const Result<Manifest> second = ReadChosen(command.second, reader);
  if (!first.ok() || !second.ok()) {
    return Fail(console, first.ok() ? second.status() : first.status());
  }
  const auto differences = reader.Compare(*first, *second);
  if (!differences.ok()) {
    return Fail(console, differences.status());
  }
  console.out(
      command.is_json ? DifferencesToJson(*differences)
                      : RenderDifferences(*differences, console.out_width));
  return kExitOk;
}

Status WriteModel(const CheckpointCommand& command, Reader& reader, const Manifest& manifest) {
  const checkpoint::ElementType type =
      command.is_half ? checkpoint::ElementType::kF16 : checkpoint::ElementType::kF32;
  PS_ASSIGN(
      checkpoint::SafetensorsWriter file,
      checkpoint::SafetensorsWriter::Create(
          command.target,
          manifest.tensors,
          type,
          {{"format", "pt"},
           {"job", JobName(manifest)},
           {"checkpoint", std::to_string(manifest.id)},
           {"software", manifest.software}}));
  for (uint32_t tensor = 0; tensor < manifest.tensors.size(); ++tensor) {
    PS_TRY(reader.ReadTensor(manifest, tensor, [&](uint64_t begin, std::span<const float> values) {
      return file.Write(tensor, static_cast<int64_t>(begin), values);
    }));
  }
  return file.Finish();
}

int Export(const CheckpointCommand& command, Reader& reader, const Console& console) {
  const Result<Manifest> manifest = ReadChosen(command.first, reader);
  if (!manifest.ok()) {
    return Fail(console, manifest.status());
  }
  if (const Status written = WriteModel(command, reader, *manifest); !written.ok()) {
    return Fail(console, written);
  }
  std::error_code error;
  const uint64_t bytes = std::filesystem::file_size(command.target, error);
  console.out(fmt::format(
      "{}: checkpoint {}, {}, {}\n",
      command.target,
      manifest->id,
      Plural(manifest->tensors.size(), "tensor"),
      FormatBytes(error ? 0 : bytes)));
  return kExitOk;
}

std::string Numbers(const std::vector<CheckpointId>& ids) {
  std::vector<std::string> texts;
  for (const CheckpointId id : ids) {
    texts.push_back(std::to_string(id));
  }
  return texts.empty() ? "none" : Join(texts);
}

int Prune(
    const CheckpointCommand& command,
    checkpoint::Storage& storage,
    const std::string& path,
    const Console& console) {
  const auto report = checkpoint::Prune(storage, path, command.keep);
  if (report.status().code() == StatusCode::kUnavailable) {
    return Fail(
        console,
        Status::Unavailable(
            std::string(report.status().message()) +
            "; a running job prunes by itself, as checkpoint.keep says"));
  }
  if (!report.ok()) {
    return Fail(console, report.status());
  }
  console.out(
      fmt::format("removed: {}\nkept: {}\n", Numbers(report->removed), Numbers(report->kept)));
  return kExitOk;
}

int Copy(
    const CheckpointCommand& command,
    checkpoint::Storage& storage,
    const std::string& path,
    const Console& console) {
  if (checkpoint::IsObjectStore(command.target)) {
    return CopyToObjects(path, command.target, console);
  }
  const auto report = checkpoint::Copy(storage, AbsolutePath(path), AbsolutePath(command.target));
  if (!report.ok()) {
    return Fail(console, report.status());
  }
  console.out(fmt::format(
      "copied: {}, {}\nthere already: {}\n",
      Numbers(report->copied),
      FormatBytes(report->written_bytes),
      Numbers(report->present)));
  return kExitOk;
}

}  // namespace

int RunCheckpoint(
    const CheckpointCommand& command, const std::string& path, const Console& console) {
  using Action = CheckpointCommand::Action;
  const auto storage = checkpoint::MakeRocksDbStorage();
  if (command.action == Action::kPrune) {
    return Prune(command, *storage, path, console);
  }
  if (command.action == Action::kCopy) {
    return Copy(command, *storage, path, console);
  }
  const auto reader = Reader::Open(*storage, path);
  if (!reader.ok()) {
    return Fail(console, reader.status());
  }
  switch (command.action) {
    case Action::kShow:
      return Show(command, **reader, console);
    case Action::kVerify:
      return Verify(command, **reader, console);
    case Action::kDiff:
      return Diff(command, **reader, console);
    case Action::kExport:
      return Export(command, **reader, console);
    default:
      return List(command, **reader, console);
  }
}

}  // namespace ps::psctl
