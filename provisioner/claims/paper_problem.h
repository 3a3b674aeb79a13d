#pragma once

#include <memory>
#include <string>
#include <vector>

#include "provisioner/claims/claims.h"
#include "provisioner/claims/published_figures.h"
#include "provisioner/model/job_models.h"
#include "provisioner/planner/plan_setup.h"
#include "provisioner/planner/planner.h"
#include "ps/base/status.h"
#include "ps/proto/files/catalog.h"
#include "ps/proto/files/profile.h"

namespace ps::provisioner {

/// What spotDNN published of its ResNet-110, as a problem for strategies. Stays where it is.
struct PaperProblem {
  PaperProblem() = default;
  PaperProblem(const PaperProblem&) = delete;
  PaperProblem& operator=(const PaperProblem&) = delete;

  proto::Catalog catalog;
  proto::JobProfile profile;
  JobModels models;
  PlanProblem problem;
};

struct PaperProblemOptions {
  std::string speed_model = "queue";
  MarketChoice market = MarketChoice::kSpot;
  std::vector<std::string> types = {};  // empty: all that were profiled
  int quota = 0;                        // of each type; 0: the catalog's
  Goal goal = {};
  bool has_free_server = false;  // its price is left out, as in spotDNN's costs
  // Prices and quotas of the released program instead of the paper's.
  const PublishedFigures* prototype = nullptr;
};

/// The shipped profile and the paper's catalog, behind one m5.xlarge. Errors: ReadFile's, and those
/// of ParseCatalog, ParseProfile, BuildJobModels and MakePlanProblem.
Result<std::unique_ptr<PaperProblem>> LoadPaperProblem(
    const ClaimFolders& folders, const PaperProblemOptions& options);

/// Best answer of a strategy. Errors: the strategy's; kNotFound where it has none.
Result<FleetChoice> BestOf(const char* strategy, const PlanProblem& problem);

}  // namespace ps::provisioner
