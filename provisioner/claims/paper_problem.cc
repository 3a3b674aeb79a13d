#include "provisioner/claims/paper_problem.h"

#include <fmt/core.h>

#include <algorithm>

#include "ps/base/file.h"

namespace ps::provisioner {
namespace {

constexpr char kServer[] = "m5.xlarge";

/// Prices and quotas of the released program.
Status TakePrototype(const PublishedFigures& figures, PaperProblem* paper, PlanSetup* setup) {
  PS_ASSIGN(
      const std::vector<FigureRow> rows,
      figures.Read(
          "spotdnn/prototype_instances.csv",
          {.texts = {"instance_type_likely"},
           .numbers = {"spot_usd_per_hour"},
           .counts = {"quota"}}));
  for (const FigureRow& row : rows) {
    for (proto::InstanceType& type : paper->catalog.types) {
      if (type.name == row.texts[0]) {
        for (proto::SpotPrice& price : type.spot) {
          price.usd_per_hour = row.numbers[0];
        }
        setup->quotas.push_back({.instance_type = type.name, .count = row.counts[0]});
      }
    }
  }
  return Status::Ok();
}

}  // namespace

Result<std::unique_ptr<PaperProblem>> LoadPaperProblem(
    const ClaimFolders& folders, const PaperProblemOptions& options) {
  auto paper = std::make_unique<PaperProblem>();
  const std::string catalog_path = folders.configs + "/catalog/spotdnn_paper.json";
  const std::string profile_path = folders.configs + "/profiles/resnet110_cifar100_spotdnn.json";
  PS_ASSIGN(const std::string catalog, ReadFile(catalog_path));
  PS_ASSIGN(paper->catalog, proto::ParseCatalog(catalog, catalog_path));
  PS_ASSIGN(const std::string profile, ReadFile(profile_path));
  PS_ASSIGN(paper->profile, proto::ParseProfile(profile, profile_path));
  PlanSetup setup;
  setup.market = options.market;
  setup.goal = options.goal;
  setup.servers = {{.instance_type = kServer}};
  for (const proto::WorkerProfile& worker : paper->profile.workers) {
    if (options.quota > 0) {
      setup.quotas.push_back({.instance_type = worker.instance_type, .count = options.quota});
    }
  }
  if (options.prototype != nullptr) {
    PS_TRY(TakePrototype(*options.prototype, paper.get(), &setup));
  }
  PS_ASSIGN(
      paper->models,
      BuildJobModels(
          paper->catalog,
          paper->profile,
          {.speed_model = options.speed_model, .instance_types = options.types}));
  if (!options.types.empty()) {
    std::erase_if(setup.quotas, [&](const TypeCount& quota) {
      return std::ranges::count(options.types, quota.instance_type) == 0;
    });
  }
  PS_ASSIGN(paper->problem, MakePlanProblem(paper->catalog, paper->models, setup));
  for (ServerOffer& server : paper->problem.servers) {
    server.usd_per_hour = options.has_free_server ? 0 : server.usd_per_hour;
  }
  return paper;
}

Result<FleetChoice> BestOf(const char* strategy, const PlanProblem& problem) {
  PS_ASSIGN(const PlanAnswer answer, MakeStrategy(strategy)->Solve(problem));
  if (answer.best.empty()) {
    return Status::NotFound(fmt::format("{}: {}", strategy, answer.infeasible.reason));
  }
  return answer.best.front();
}

}  // namespace ps::provisioner
