#pragma once

#include <string>

#include "psctl/cli/command.h"
#include "psctl/models/chosen_model.h"

namespace ps::psctl {

struct EvaluateCommand {
  ModelChoice choice;
  std::string data;  // empty: where the model's job had it
  std::string part;  // of a folder of data; empty: the tests
  bool is_json = false;
  bool has_confusion = false;
  std::string plot_path;  // of the confusion matrix; empty: none
};

extern const Command kEvaluate;

}  // namespace ps::psctl
