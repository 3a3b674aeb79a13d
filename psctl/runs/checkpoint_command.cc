#include "psctl/runs/checkpoint_command.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <memory>
#include <vector>

#include "checkpoint/maintenance.h"
#include "checkpoint/reader.h"
#include "checkpoint/remote/place.h"
#include "checkpoint/rocksdb_storage.h"
#include "ps/base/text.h"
#include "psctl/runs/checkpoint_source.h"
#include "psctl/runs/remote_copies.h"
#include "psctl/view/checkpoint_view.h"
#include "run/directory/borrowed_job.h"
#include "run/directory/files.h"
#include "run/directory/model_export.h"

namespace ps::psctl {
namespace {

using checkpoint::CheckpointId;
using checkpoint::Manifest;
using checkpoint::Reader;

CheckpointSource SourceOf(Reader& reader) {
  return {
      reader.path(),
      reader.ids(),
      [&reader](CheckpointId id) { return reader.ReadManifest(id); },
      [&reader](CheckpointId id) {
        std::vector<checkpoint::Damage> damages = reader.Verify(id);
        std::ranges::move(reader.VerifyIndex(id), std::back_inserter(damages));
        return damages;
      }};
}

int Diff(const CheckpointCommand& command, Reader& reader, const Console& console) {
  const Result<Manifest> first = ReadChosen(SourceOf(reader), command.first);
  const Result<Manifest> second = ReadChosen(SourceOf(reader), command.second);
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

int Export(const CheckpointCommand& command, Reader& reader, const Console& console) {
  const Result<Manifest> manifest = ReadChosen(SourceOf(reader), command.first);
  if (!manifest.ok()) {
    return Fail(console, manifest.status());
  }
  const Status written = ExportModel(reader, *manifest, command.target, command.is_half);
  if (!written.ok()) {
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

int Prune(
    const CheckpointCommand& command,
    checkpoint::Storage& storage,
    const std::string& path,
    const Console& console) {
  const auto report = checkpoint::Prune(storage, path, command.keep);
  if (report.status().code() == StatusCode::kUnavailable) {
    return Fail(
        console,
        Status::Unavailable(fmt::format(
            "{}; a running job prunes by itself, as checkpoint.keep says",
            report.status().message())));
  }
  if (!report.ok()) {
    return Fail(console, report.status());
  }
  console.out(fmt::format(
      "removed: {}\nkept: {}\n", NumbersText(report->removed), NumbersText(report->kept)));
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
  const std::string target = AbsolutePath(command.target);
  const auto report = checkpoint::Copy(storage, AbsolutePath(path), target);
  const Status carried =
      report.ok() ? CarryOrigin(storage, AbsolutePath(path), target) : report.status();
  if (!carried.ok()) {
    return Fail(console, carried);
  }
  console.out(fmt::format(
      "copied: {}, {}\nthere already: {}\n",
      NumbersText(report->copied),
      FormatBytes(report->written_bytes),
      NumbersText(report->present)));
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
      return ShowCheckpoint(command, SourceOf(**reader), console);
    case Action::kVerify:
      return VerifyCheckpoints(command, SourceOf(**reader), console);
    case Action::kDiff:
      return Diff(command, **reader, console);
    case Action::kExport:
      return Export(command, **reader, console);
    default:
      return ListCheckpoints(command, SourceOf(**reader), console);
  }
}

}  // namespace ps::psctl
