#pragma once

#include "provisioner/strategies/deepvm.h"

namespace ps::provisioner {

/// The input of DeepVM's released program: g3s, g4dn, g5, and eight types without accelerator.
DeepVmProblem DeepVmProgramInput(double usd_per_hour_max);

/// The ten fictitious types of its simulation (Fig. 7), A to J; 255 of each at most.
DeepVmProblem DeepVmSimulationInput(double usd_per_hour_max);

}  // namespace ps::provisioner
