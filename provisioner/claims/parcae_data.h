#pragma once

#include <string>
#include <vector>

#include "provisioner/claims/parcae_pipelines.h"
#include "provisioner/claims/published_figures.h"
#include "ps/base/status.h"

namespace ps::provisioner {

/// The models whose figures Parcae's release has.
std::vector<std::string> ParcaeModelNames();

/// A minute of the trace, with the plans that were published for it.
struct ParcaeMinute {
  ParcaeEvent event;
  ParcaePlan truth;
  ParcaePlan predicted;
};

/// A model on a trace.
struct ParcaeCase {
  ParcaeModel model;
  std::vector<ParcaeMinute> minutes;
};

/// As Parcae's cost model has it, on its own trace; speeds, build times and plans are data of the
/// release. Errors: those of PublishedFigures::Read.
Result<ParcaeCase> LoadParcaeCase(const PublishedFigures& figures, const std::string& name);

/// An hour of the trace in Table 2 of the paper: what an image or token costs, in 1e-6 USD.
struct ParcaeHour {
  std::string model;
  std::string hour;
  int units = 1;  // images or tokens of a sample
  int begin_minute = 0;
  double on_demand_usd = 0;
  double varuna_usd = 0;  // 0: it finished no step
  double bamboo_usd = 0;  // the same
  double parcae_usd = 0;
};

/// Errors: as above.
Result<std::vector<ParcaeHour>> LoadParcaeHours(const PublishedFigures& figures);

}  // namespace ps::provisioner
