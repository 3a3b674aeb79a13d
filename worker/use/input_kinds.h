#pragma once

#include <string>
#include <string_view>

#include "worker/use/inputs.h"

// What each format makes of its files, for inputs.cc to choose among. Errors: as OpenInputs.

namespace ps::worker {

/// What all of them are told. `path` is a folder or a file.
struct InputsWanted {
  const ModelCard& card;
  const std::string& path;
  bool is_folder = false;
  LabelUse use = LabelUse::kNeeded;
  LoadProgress* progress = nullptr;
  std::string part = {};  // of a folder; empty: the tests

  /// What names of its files begin with.
  std::string PartName() const { return part.empty() ? "test" : part; }

  bool needs_labels() const { return use == LabelUse::kNeeded; }
};

/// kInvalidArgument: there are no labels at `path`.
Status NoLabels(const std::string& path, std::string_view remedy);
/// kInvalidArgument: samples of `path` are not what the model takes.
Status OtherShape(const std::string& path, const Shape& shape, const Shape& model);

Result<Inputs> OpenPictures(const InputsWanted& wanted);      // idx, cifar10, cifar100
Result<Inputs> OpenPictureFiles(const InputsWanted& wanted);  // pictures
Result<Inputs> OpenArrays(const InputsWanted& wanted);        // npy
Result<Inputs> OpenTables(const InputsWanted& wanted);        // csv, tsv
Result<Inputs> OpenTexts(const InputsWanted& wanted);

}  // namespace ps::worker
