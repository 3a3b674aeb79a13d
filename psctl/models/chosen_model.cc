#include "psctl/models/chosen_model.h"

#include <fmt/core.h>
#include <stdlib.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "checkpoint/model/safetensors.h"
#include "ps/base/text.h"
#include "ps/proto/job/device_choice.h"
#include "ps/proto/job/job_config.h"
#include "psctl/runs/chosen_run.h"
#include "run/directory/borrowed_job.h"
#include "run/directory/files.h"
#include "run/directory/head_file.h"
#include "run/directory/model_card.h"
#include "run/directory/model_export.h"
#include "run/directory/run_checkpoints.h"
#include "run/report/data_watch.h"
#include "run/report/script_parts.h"
#include "worker/data/store/stored_data.h"
#include "worker/use/card_of_job.h"

namespace ps::psctl {
namespace {

namespace fs = std::filesystem;

bool IsThere(const std::string& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

/// An object store is not asked where only a file of somebody else names the place.
Status NotNamedHere(const ChosenModel& model, const std::string& place, const char* how) {
  return Status::InvalidArgument(fmt::format(
      "{} names {}, and whoever made the file has chosen that place; to have it asked with your "
      "keys, name it yourself: {}",
      Printable(model.file),
      Printable(place),
      how));
}

/// Into the cache, when it is in an object store.
Status BringTokenizer(bool is_typed, const run::Console& console, ChosenModel* model) {
  worker::ModelCard* const card = &model->card;
  if (!worker::IsInStore(card->data.tokenizer)) {
    return Status::Ok();
  }
  if (!is_typed && !model->is_own) {
    return NotNamedHere(*model, card->data.tokenizer, "--tokenizer PLACE");
  }
  run::DataWatch watch(card->data.tokenizer, console.err);
  proto::DataConfig wanted;
  wanted.tokenizer = card->data.tokenizer;
  wanted.cache = model->is_own ? card->data.cache : "";
  PS_ASSIGN(worker::FetchedData here, worker::DataHere(wanted, watch.progress()));
  card->data.tokenizer = std::move(here.config.tokenizer);
  return Status::Ok();
}

/// A folder that is removed with all that is in it.
Result<std::shared_ptr<const std::string>> MakeFolder() {
  std::string path = (fs::temp_directory_path() / "spotps-model-XXXXXX").string();
  if (::mkdtemp(path.data()) == nullptr) {
    return Status::Io(fmt::format("cannot make a folder like {}: {}", path, std::strerror(errno)));
  }
  return std::shared_ptr<const std::string>(new std::string(path), [](const std::string* folder) {
    std::error_code ignored;
    fs::remove_all(*folder, ignored);
    delete folder;
  });
}

/// The model of a run that has left none: that of its newest checkpoint, in a file for now.
Status TakeCheckpoint(const run::RunPaths& run, const Session& session, ChosenModel* chosen) {
  const std::string name = run::BaseName(run.root);
  PS_ASSIGN(const std::shared_ptr<const std::string> folder, MakeFolder());
  chosen->folder = folder;
  chosen->file = *folder + "/model.safetensors";
  const Result<std::map<std::string, std::string>> card = run::ReadModelCard(run.model_card());
  const Result<checkpoint::Manifest> manifest = run::ExportNewestModel(
      run::CheckpointPathOf(run),
      {.path = chosen->file,
       .frozen_path = run::FrozenTensorsOf(run.described()),
       .card = card.ok() ? *card : std::map<std::string, std::string>()});
  if (!manifest.ok()) {
    return Status::NotFound(fmt::format(
        "{} has no model yet, and no checkpoint that can be read: {}",
        name,
        manifest.status().message()));
  }
  session.console.err(fmt::format(
      "{} has no model.safetensors: this is the model of its checkpoint {}, after {}\n",
      name,
      manifest->id,
      Plural(manifest->progress.steps, "step")));
  return Status::Ok();
}

/// The description that a job gives, of which people are told.
Status TakeCardOf(const std::string& job_path, const Session& session, ChosenModel* chosen) {
  PS_ASSIGN(const proto::JobConfig config, proto::LoadJobConfig(job_path));
  for (const std::string& place : {config.data.directory, config.data.tokenizer}) {
    if (worker::IsInStore(place) && !chosen->is_own) {
      return NotNamedHere(*chosen, place, "--job JOB.json");
    }
  }
  Result<worker::ModelCard> card = worker::CardOfJob(config);
  if (!card.ok()) {
    return proto::AtItsField(card.status(), job_path, {});
  }
  chosen->card = std::move(card).value();
  chosen->name = config.name;
  session.console.err(fmt::format(
      "layers, classes and what becomes of inputs are those of {} and its data\n", job_path));
  return Status::Ok();
}

/// The job beside a model: a run's directory has both.
std::string JobBeside(const std::string& file) {
  const std::string path = (fs::path(file).parent_path() / "job.json").string();
  return IsThere(path) ? path : "";
}

Status TakeCard(const ModelChoice& choice, const Session& session, ChosenModel* chosen) {
  PS_ASSIGN(
      const checkpoint::SafetensorsReader reader,
      checkpoint::SafetensorsReader::Open(chosen->file));
  const auto& metadata = reader.header().metadata;
  if (const auto job = metadata.find("job"); job != metadata.end()) {
    chosen->name = job->second;
  }
  if (!choice.job_path.empty()) {
    chosen->is_own = true;
    return TakeCardOf(choice.job_path, session, chosen);
  }
  PS_ASSIGN(std::optional<worker::ModelCard> card, worker::CardIn(metadata).Annotate(chosen->file));
  if (card) {
    chosen->card = std::move(*card);
    return Status::Ok();
  }
  if (const std::string job = JobBeside(choice.model); !job.empty()) {
    return TakeCardOf(job, session, chosen);
  }
  return Status::InvalidArgument(fmt::format(
      "{} does not say which layers it is of, as a file of an earlier version or of another "
      "program doesn't; give the job that has them: --job JOB.json",
      chosen->file));
}

}  // namespace

void AddModel(ModelChoice* choice, Arguments* arguments) {
  arguments
      ->Add(
          "MODEL",
          &choice->model,
          "A model.safetensors, or a run: its directory, or the name or file of its job")
      .Required();
  arguments
      ->Add(
          "--job",
          &choice->job_path,
          "The job that the model is of, for a file that does not say what its layers are")
      .Value("JOB.json");
}

void AddDevice(ModelChoice* choice, Arguments* arguments) {
  arguments
      ->Add(
          "--device",
          &choice->device,
          "What computes: cpu, cuda, cuda:1 or auto, as in a job's workers (cpu when absent)")
      .Value("DEVICE");
}

void AddTokenizer(ModelChoice* choice, Arguments* arguments) {
  arguments
      ->Add(
          "--tokenizer",
          &choice->tokenizer,
          "Folder with the model's vocab.json and merges.txt, when it is not where the job had it")
      .Value("DIR");
}

Result<ChosenModel> ChooseModel(const ModelChoice& choice, const Session& session) {
  ChosenModel chosen;
  ModelChoice beside = choice;
  if (IsThere(choice.model) && !choice.model.ends_with(".json")) {
    chosen.file = choice.model;
    const fs::path folder = fs::path(run::AbsolutePath(choice.model)).parent_path();
    chosen.is_own = session.registry.IsHere({folder.string()});
  } else if (choice.model.ends_with(".safetensors")) {
    return Status::NotFound(
        choice.model + " is not there; a model is a safetensors file, or a run by its name");
  } else {
    PS_ASSIGN(const run::RunPaths run, ChooseAnyRun(choice.model, session.registry));
    chosen.file = run.model();
    chosen.is_own = true;
    beside.model = run.model();
    if (!IsThere(chosen.file) && run::IsElsewhere(run)) {
      return Status::Unavailable(fmt::format(
          "{} is on a rented machine; psctl attach fetches its model once it has ended",
          run::BaseName(run.root)));
    }
    if (!IsThere(chosen.file)) {
      PS_TRY(TakeCheckpoint(run, session, &chosen));
    }
  }
  PS_TRY(TakeCard(beside, session, &chosen));
  if (!choice.tokenizer.empty()) {
    chosen.card.data.tokenizer = choice.tokenizer;
  }
  return chosen;
}

Result<LoadedModel> LoadModel(const ModelChoice& choice, const Session& session) {
  PS_ASSIGN(const proto::DeviceChoice device, proto::ParseDevice(choice.device));
  LoadedModel loaded;
  PS_ASSIGN(loaded.chosen, ChooseModel(choice, session));
  PS_TRY(BringTokenizer(!choice.tokenizer.empty(), session.console, &loaded.chosen));
  PS_ASSIGN(loaded.device, worker::OpenDevice(device, WorkerId(0), worker::Products::kSameBits));
  if (!loaded.device.note.empty()) {
    session.console.err(loaded.device.note + "\n");
  }
  std::vector<kernels::Backend*> backends;
  for (const auto& backend : loaded.device.backends) {
    backends.push_back(backend.get());
  }
  PS_ASSIGN(
      loaded.model, worker::TrainedModel::Load(loaded.chosen.file, loaded.chosen.card, backends));
  return loaded;
}

Result<std::string> DataOf(
    const std::string& typed,
    const ChosenModel& model,
    const run::Console& console,
    const std::string& part) {
  const proto::DataConfig& data = model.card.data;
  const std::string& path = typed.empty() ? data.directory : typed;
  if (worker::IsInStore(path)) {
    if (typed.empty() && !model.is_own) {
      return NotNamedHere(model, path, "as the data behind the model");
    }
    run::DataWatch watch(path, console.err);
    proto::DataConfig wanted = data;
    wanted.directory = path;
    wanted.tokenizer.clear();
    wanted.validation = part.empty() ? data.validation : part;
    wanted.cache = model.is_own ? data.cache : "";
    PS_ASSIGN(const worker::FetchedData here, worker::DataHere(wanted, watch.progress()));
    return here.config.directory;
  }
  std::error_code error;
  if (fs::exists(path, error)) {
    return path;
  }
  return Status::NotFound(fmt::format(
      "{} is not there{}",
      path,
      typed.empty() ? "; it is where the model's job had its data: name a folder or file of the "
                      "same format"
                    : ""));
}

}  // namespace ps::psctl
