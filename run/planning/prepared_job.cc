#include "run/planning/prepared_job.h"

#include <utility>

#include "provisioner/profile/fingerprint.h"
#include "provisioner/profile/plan_run.h"
#include "run/planning/planning_files.h"

namespace ps::run {
namespace {

/// Nothing for an empty path.
Result<std::optional<proto::Plan>> LoadPlanIfNamed(const std::string& path) {
  if (path.empty()) {
    return std::optional<proto::Plan>();
  }
  PS_ASSIGN(proto::Plan plan, LoadPlan(path));
  return std::optional<proto::Plan>(std::move(plan));
}

}  // namespace

Result<PreparedJob> PrepareJob(
    const proto::JobConfig& config,
    const std::string& job_path,
    const std::vector<proto::ConfigOverride>& overrides,
    const std::string& plan_path) {
  PreparedJob job;
  PS_ASSIGN(job.plan, LoadPlanIfNamed(plan_path));
  PS_ASSIGN(job.parts, LoadParts(config, job_path, overrides));
  PS_ASSIGN(job.config, CompleteJob(config, job.parts, job_path, overrides));
  if (job.plan) {
    PS_ASSIGN(
        job.config,
        provisioner::ApplyPlan(
            job.config, *job.plan, provisioner::ModelFingerprint(job.parts.model.tensors)));
    job.note = provisioner::PlanNote(job.config, *job.plan);
  }
  return job;
}

}  // namespace ps::run
