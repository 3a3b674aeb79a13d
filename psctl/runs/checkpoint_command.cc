#include "psctl/runs/checkpoint_command.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <iterator>
#include <map>
#include <memory>
#include <vector>

#include "checkpoint/maintenance.h"
#include "checkpoint/reader.h"
#include "checkpoint/remote/place.h"
#include "checkpoint/storage/rocksdb_storage.h"
#include "ps/base/file.h"
#include "ps/base/text.h"
#include "ps/json/json_value.h"
#include "psctl/cli/arguments.h"
#include "psctl/runs/checkpoint_source.h"
#include "psctl/runs/chosen_run.h"
#include "psctl/runs/remote_copies.h"
#include "psctl/view/checkpoint_view.h"
#include "run/directory/borrowed_job.h"
#include "run/directory/control.h"
#include "run/directory/files.h"
#include "run/directory/model_card.h"
#include "run/directory/model_export.h"
#include "run/directory/run_checkpoints.h"
#include "run/report/script_parts.h"

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

int Diff(const CheckpointCommand& command, Reader& reader, const run::Console& console) {
  const Result<Manifest> first = ReadChosen(SourceOf(reader), command.first);
  const Result<Manifest> second = ReadChosen(SourceOf(reader), command.second);
  if (!first.ok() || !second.ok()) {
    return run::Fail(console, first.ok() ? second.status() : first.status());
  }
  const auto differences = reader.Compare(*first, *second);
  if (!differences.ok()) {
    return run::Fail(console, differences.status());
  }
  console.out(
      command.is_json ? DifferencesToJson(*differences)
                      : RenderDifferences(*differences, console.out_width));
  return run::kExitOk;
}

int Export(
    const CheckpointCommand& command,
    Reader& reader,
    const ExportParts& parts,
    const run::Console& console) {
  const Result<Manifest> manifest = ReadChosen(SourceOf(reader), command.first);
  if (!manifest.ok()) {
    return run::Fail(console, manifest.status());
  }
  const auto card = run::CardOfCheckpoint(parts.card_path, manifest->config_json);
  if (!card.ok() && card.status().code() != StatusCode::kUnsupported) {
    console.err(fmt::format(
        "{} will not say what its layers are and what becomes of inputs: {}\n",
        command.target,
        card.status().message()));
  }
  const Status written = run::ExportModel(
      reader,
      *manifest,
      {.path = command.target,
       .is_half = command.is_half,
       .frozen_path = parts.frozen_path,
       .card = card.ok() ? *card : std::map<std::string, std::string>()});
  if (!written.ok()) {
    return run::Fail(console, written);
  }
  std::error_code error;
  const uint64_t bytes = std::filesystem::file_size(command.target, error);
  console.out(fmt::format(
      "{}: checkpoint {}, {}, {}\n",
      command.target,
      manifest->id,
      Plural(manifest->tensors.size(), "tensor") +
          (parts.frozen_path.empty() ? "" : " and those that nobody trains"),
      FormatBytes(error ? 0 : bytes)));
  return run::kExitOk;
}

/// The best epoch's checkpoint in `path`, as its run knows it, or else the newest one says; 0:
/// there is none.
checkpoint::CheckpointId BestIn(
    checkpoint::Storage& storage,
    const std::string& path,
    const std::optional<BestCheckpoint>& known) {
  if (known) {
    return known->id;
  }
  const auto reader = checkpoint::Reader::Open(storage, path);
  if (!reader.ok() || (*reader)->ids().empty()) {
    return 0;  // which pruning tells
  }
  for (auto id = (*reader)->ids().rbegin(); id != (*reader)->ids().rend(); ++id) {
    if (const auto manifest = (*reader)->ReadManifest(*id); manifest.ok()) {
      const std::optional<BestCheckpoint> best = BestSaidBy(*manifest);
      return best ? best->id : 0;
    }
  }
  return 0;
}

int Prune(
    const CheckpointCommand& command,
    checkpoint::Storage& storage,
    const std::string& path,
    const std::optional<BestCheckpoint>& known,
    const run::Console& console) {
  const checkpoint::CheckpointId best = BestIn(storage, path, known);
  const auto report = checkpoint::Prune(storage, path, command.keep, best);
  if (report.status().code() == StatusCode::kUnavailable) {
    return run::Fail(
        console,
        Status::Unavailable(fmt::format(
            "{}; a running job prunes by itself, as checkpoint.keep says",
            report.status().message())));
  }
  if (!report.ok()) {
    return run::Fail(console, report.status());
  }
  console.out(fmt::format(
      "removed: {}\nkept: {}\n", NumbersText(report->removed), NumbersText(report->kept)));
  for (const checkpoint::SetAside& damaged : report->damaged) {
    console.err(fmt::format(
        "checkpoint {} was damaged for good and is gone: {}\n",
        damaged.id,
        Printable(damaged.why)));
  }
  for (const checkpoint::SetAside& unread : report->unread) {
    console.err(fmt::format(
        "checkpoint {} can't be read now, so it stays and does not count: {}\n",
        unread.id,
        Printable(unread.why)));
  }
  return run::kExitOk;
}

int Copy(
    const CheckpointCommand& command,
    checkpoint::Storage& storage,
    const std::string& path,
    const run::Console& console) {
  if (checkpoint::IsObjectStore(command.target)) {
    return CopyToObjects(path, command.target, console);
  }
  const std::string target = run::AbsolutePath(command.target);
  const auto report = checkpoint::Copy(storage, run::AbsolutePath(path), target);
  const Status carried =
      report.ok() ? run::CarryOrigin(storage, run::AbsolutePath(path), target) : report.status();
  if (!carried.ok()) {
    return run::Fail(console, carried);
  }
  console.out(fmt::format(
      "copied: {}, {}\nthere already: {}\n",
      NumbersText(report->copied),
      FormatBytes(report->written_bytes),
      NumbersText(report->present)));
  return run::kExitOk;
}

}  // namespace

int RunCheckpoint(
    const CheckpointCommand& command,
    const std::string& path,
    const ExportParts& parts,
    const std::optional<BestCheckpoint>& best,
    const run::Console& console) {
  using Action = CheckpointCommand::Action;
  const auto storage = checkpoint::MakeRocksDbStorage();
  if (command.action == Action::kPrune) {
    return Prune(command, *storage, path, best, console);
  }
  if (command.action == Action::kCopy) {
    return Copy(command, *storage, path, console);
  }
  const auto reader = Reader::Open(*storage, path);
  if (!reader.ok()) {
    return run::Fail(console, reader.status());
  }
  switch (command.action) {
    case Action::kShow:
      return ShowCheckpoint(command, SourceOf(**reader), console);
    case Action::kVerify:
      return VerifyCheckpoints(command, SourceOf(**reader), console);
    case Action::kDiff:
      return Diff(command, **reader, console);
    case Action::kExport:
      return Export(command, **reader, parts, console);
    default:
      CheckpointSource source = SourceOf(**reader);
      source.best = best;
      return ListCheckpoints(command, source, console);
  }
}

namespace {

constexpr size_t kKeepMax = 1'000'000;
constexpr const char* kNumberHelp = "Number of a checkpoint, or newest";

/// "7" or "newest", which is 0.
Status ParseCheckpoint(const std::string& text, uint64_t* number) {
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, *number);
  if (text != "newest" && (error != std::errc() || stopped != end || *number == 0)) {
    return Status::InvalidArgument(fmt::format(
        "a checkpoint is a number or 'newest', not '{}'; psctl checkpoint list shows them",
        Printable(text)));
  }
  return Status::Ok();
}

Argument AddNumber(const std::string& names, uint64_t* number, Arguments* arguments) {
  return arguments->AddText(
      names,
      [number](const std::string& text) { return ParseCheckpoint(text, number); },
      kNumberHelp);
}

void AddWhere(CheckpointCommand* command, Arguments* arguments) {
  arguments->Add(
      "RUN",
      &command->where,
      "Run, checkpoint path or place of copies; the running job's if there is only one");
}

void AddJson(CheckpointCommand* command, Arguments* arguments) {
  arguments->Add("--json", &command->is_json, "Print JSON");
}

void AddList(CheckpointCommand* command, Arguments* arguments) {
  command->action = CheckpointCommand::Action::kList;
  AddWhere(command, arguments);
  AddJson(command, arguments);
}

void AddShow(CheckpointCommand* command, Arguments* arguments) {
  command->action = CheckpointCommand::Action::kShow;
  AddNumber("K", &command->first, arguments).Required();
  AddWhere(command, arguments);
}

void AddVerify(CheckpointCommand* command, Arguments* arguments) {
  command->action = CheckpointCommand::Action::kVerify;
  AddWhere(command, arguments);
  AddNumber("--checkpoint", &command->first, arguments).Value("K");
  arguments->Add("--all", &command->is_all, "Verify every checkpoint");
  AddJson(command, arguments);
}

void AddDiff(CheckpointCommand* command, Arguments* arguments) {
  command->action = CheckpointCommand::Action::kDiff;
  AddNumber("K1", &command->first, arguments).Required();
  AddNumber("K2", &command->second, arguments).Required();
  AddWhere(command, arguments);
  AddJson(command, arguments);
}

void AddExport(CheckpointCommand* command, Arguments* arguments) {
  command->action = CheckpointCommand::Action::kExport;
  AddNumber("K", &command->first, arguments).Required();
  arguments->Add("FILE", &command->target, "File to write").Required();
  AddWhere(command, arguments);
  arguments->Add("--half", &command->is_half, "16-bit floats: half the size");
}

void AddPrune(CheckpointCommand* command, Arguments* arguments) {
  command->action = CheckpointCommand::Action::kPrune;
  AddWhere(command, arguments);
  arguments->Add("--keep", &command->keep, "How many to keep").Required();
  arguments->Check([command] {
    return command->keep >= 1 && command->keep <= kKeepMax
               ? Status::Ok()
               : Status::InvalidArgument(
                     fmt::format("--keep wants a number from 1 to {}, as in --keep 3", kKeepMax));
  });
  arguments->Add(
      "--force", &command->is_forced, "Also where a copier that was killed has not left the place");
}

void AddCopy(CheckpointCommand* command, Arguments* arguments) {
  command->action = CheckpointCommand::Action::kCopy;
  arguments->Add("DEST", &command->target, "Checkpoint path, s3://BUCKET/PREFIX or file://FOLDER")
      .Required();
  AddWhere(command, arguments);
}

/// As the run's coordinator knows it, or its summary; nothing when neither does.
std::optional<BestCheckpoint> BestOfRun(const run::RunPaths& run) {
  if (run::FileLock::IsHeld(run.lock())) {
    const Result<proto::JobStatus> status = run::FetchStatus(run);
    if (!status.ok() || status->checkpoints.best == 0) {
      return std::nullopt;
    }
    const proto::CheckpointStatus& known = status->checkpoints;
    return BestCheckpoint{known.best, known.best_epoch, known.best_metric, known.best_score};
  }
  const Result<std::string> text = ReadFile(run.summary_json());
  const Result<JsonValue> summary =
      text.ok() ? ParseJson(*text, run.summary_json()) : Result<JsonValue>(text.status());
  const JsonValue* const best = summary.ok() ? summary->Find("best") : nullptr;
  if (best == nullptr) {
    return std::nullopt;
  }
  const auto number = [best](const char* name) {
    const JsonValue* const field = best->Find(name);
    double value = 0;
    if (field != nullptr) {
      std::from_chars(field->text.data(), field->text.data() + field->text.size(), value);
    }
    return value;
  };
  const auto count = [&](const char* name) {
    return static_cast<uint64_t>(std::clamp(number(name), 0.0, 1e15));
  };
  const JsonValue* const metric = best->Find("metric");
  return BestCheckpoint{
      count("checkpoint"), count("epoch"), metric == nullptr ? "" : metric->text, number("score")};
}

/// On the checkpoint path that was named, or on that of the run that was.
int Run(const CheckpointCommand& command, const Session& session) {
  const run::Console& console = session.console;
  if (checkpoint::IsObjectStore(command.where)) {
    return RunOnObjects(command, console);
  }
  if (run::IsCheckpointPath(command.where)) {
    // That of a run whose checkpoints are in their place.
    const auto beside = std::filesystem::path(run::AbsolutePath(command.where)).parent_path();
    return RunCheckpoint(
        command,
        command.where,
        {.card_path = run::RunPaths{beside.string()}.model_card()},
        std::nullopt,
        console);
  }
  const Result<run::RunPaths> chosen = ChooseRun(command.where, session.registry);
  if (!chosen.ok()) {
    return run::Fail(
        console,
        Status(
            chosen.status().code(),
            std::string(chosen.status().message()) + "; name a run or a checkpoint path"));
  }
  return OnChosen(chosen, command.where, session, [&](const run::RunPaths& run) {
    return RunCheckpoint(
        command,
        run::CheckpointPathOf(run),
        {.frozen_path = run::FrozenTensorsOf(run.described()), .card_path = run.model_card()},
        BestOfRun(run),
        console);
  });
}

}  // namespace

constinit const Command kCheckpoint = {
    .path = "checkpoint",
    .group = Group::kKeep,
    .help = "Look at, check, copy or export checkpoints"};

constinit const Command kCheckpointList = {
    .path = "checkpoint list",
    .help = "List them, with sizes",
    .examples = {{{"psctl checkpoint list", "those of the running job"}}},
    .declare = Declare<CheckpointCommand, AddList, Run>};

constinit const Command kCheckpointShow = {
    .path = "checkpoint show",
    .help = "Show one, with its shards and tensors",
    .examples = {{{"psctl checkpoint show newest", "shards, tensors and sizes"}}},
    .declare = Declare<CheckpointCommand, AddShow, Run>};

constinit const Command kCheckpointVerify = {
    .path = "checkpoint verify",
    .help = "Read all of the newest; name what is damaged",
    .declare = Declare<CheckpointCommand, AddVerify, Run>};

constinit const Command kCheckpointDiff = {
    .path = "checkpoint diff",
    .help = "Compare the parameters of two",
    .examples = {{{"psctl checkpoint diff 3 newest", "how far the parameters have moved"}}},
    .declare = Declare<CheckpointCommand, AddDiff, Run>};

constinit const Command kCheckpointExport = {
    .path = "checkpoint export",
    .help = "Write a model as a safetensors file",
    .examples =
        {{{"psctl checkpoint export newest m.safetensors", "its model, for other programs"}}},
    .declare = Declare<CheckpointCommand, AddExport, Run>};

constinit const Command kCheckpointPrune = {
    .path = "checkpoint prune",
    .help = "Remove all but the newest",
    .examples =
        {{{"psctl checkpoint prune --keep 3",
           "all but the newest three go, and but the best epoch's"}}},
    .declare = Declare<CheckpointCommand, AddPrune, Run>};

constinit const Command kCheckpointCopy = {
    .path = "checkpoint copy",
    .help = "Copy those that DEST lacks",
    .examples = {{{"psctl checkpoint copy s3://bucket/mnist", "from the running job"}}},
    .declare = Declare<CheckpointCommand, AddCopy, Run>};

}  // namespace ps::psctl
