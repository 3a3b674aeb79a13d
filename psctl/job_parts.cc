#include "psctl/job_parts.h"

namespace ps::psctl {
namespace {

Result<JobParts> PartsOf(const proto::JobConfig& config) {
  JobParts parts;
  PS_ASSIGN(parts.data, worker::Dataset::Inspect(config.data));
  PS_ASSIGN(parts.model, worker::MakeModel(config.model, parts.data.shape, parts.data.classes));
  return parts;
}

}  // namespace

Result<JobParts> LoadParts(
    const proto::JobConfig& config,
    const std::string& path,
    const std::vector<proto::ConfigOverride>& overrides) {
  Result<JobParts> parts = PartsOf(config);
  if (!parts.ok()) {
    return proto::AtItsField(parts.status(), path, overrides);
  }
  return parts;
}

}  // namespace ps::psctl
