#pragma once

#include <string>

#include "psctl/cli/command.h"
#include "psctl/models/chosen_model.h"
#include "worker/use/text_sampler.h"

namespace ps::psctl {

struct SampleCommand {
  ModelChoice choice;
  std::string prompt;
  worker::Sampling sampling;
};

extern const Command kSample;

}  // namespace ps::psctl
