#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ps/base/status.h"
#include "psctl/cli/arguments.h"
#include "psctl/cli/command.h"
#include "run/report/console.h"
#include "worker/device.h"
#include "worker/use/model_card.h"
#include "worker/use/trained_model.h"

namespace ps::psctl {

/// What the commands that use a model are told of it.
struct ModelChoice {
  std::string model;           // a safetensors file, or a run as ChooseAnyRun takes it
  std::string job_path;        // whose layers and data it has; empty: as it says itself
  std::string tokenizer;       // in place of the path that it says; empty: that one
  std::string device = "cpu";  // as a job's workers[].device
};

/// MODEL and --job; `AddDevice` adds --device, `AddTokenizer` --tokenizer.
void AddModel(ModelChoice* choice, Arguments* arguments);
void AddDevice(ModelChoice* choice, Arguments* arguments);
void AddTokenizer(ModelChoice* choice, Arguments* arguments);

/// A model's file and description.
struct ChosenModel {
  std::string file;
  std::string name;  // of its job, for people
  worker::ModelCard card;
  std::shared_ptr<const void> folder;  // of a file that goes with it; null: the file stays
  /// It is of a run here, or of a run or job that was typed. Else whoever made the file has
  /// chosen the places that it names, which are not asked with this user's keys.
  bool is_own = false;
};

/// Finds them. Says on stderr what is not as one would think: a model of a checkpoint, a
/// description that was made of a job. Errors: kNotFound (no such run, or it has no model yet);
/// kInvalidArgument, a file that says nothing of its layers, with what to do; those of CardIn,
/// CardOfJob and SafetensorsReader.
Result<ChosenModel> ChooseModel(const ModelChoice& choice, const Session& session);

/// A model ready for use on its device.
struct LoadedModel {
  ChosenModel chosen;
  worker::Device device;
  std::unique_ptr<worker::TrainedModel> model;
};

/// Errors: those of ChooseModel, ParseDevice, OpenDevice and TrainedModel::Load.
Result<LoadedModel> LoadModel(const ModelChoice& choice, const Session& session);

/// Where a model's data are: the path that was typed, or that of its job; what is in an object
/// store, by then, in a cache. Errors: kNotFound; kInvalidArgument, a place in a store that nobody
/// here has named; those of DataHere. `part`: the part of them that is asked for, or empty.
Result<std::string> DataOf(
    const std::string& typed,
    const ChosenModel& model,
    const run::Console& console,
    const std::string& part = "");

}  // namespace ps::psctl
