#include "psctl/runs/chosen_run.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "ps/base/file.h"
#include "ps/proto/job/job_config.h"
#include "run/directory/files.h"

namespace ps::psctl {

Result<run::RunPaths> ChooseRun(const std::string& job, const run::RunRegistry& registry) {
  if (job.ends_with(".json") && std::filesystem::is_regular_file(job)) {
    PS_ASSIGN(const proto::JobConfig config, proto::LoadJobConfig(job));
    return registry.Resolve(config.name);
  }
  if (!job.empty()) {
    return registry.Resolve(job);
  }
  const std::vector<run::RunningJob> running = registry.Find();
  if (running.empty()) {
    return Status::NotFound("no job is running");
  }
  if (running.size() > 1) {
    std::string names;
    for (const run::RunningJob& candidate : running) {
      names += (names.empty() ? "" : ", ") + run::BaseName(candidate.paths.root);
    }
    return Status::InvalidArgument(fmt::format("several jobs are running; name one: {}", names));
  }
  return running.front().paths;
}

Result<run::RunPaths> ChooseAnyRun(const std::string& job, const run::RunRegistry& registry) {
  Result<run::RunPaths> chosen = ChooseRun(job, registry);
  if (chosen.ok() || chosen.status().code() != StatusCode::kNotFound || job.empty()) {
    return chosen;
  }
  std::string name = job;
  if (job.ends_with(".json")) {
    PS_ASSIGN(const proto::JobConfig config, proto::LoadJobConfig(job));
    name = config.name;
  }
  std::vector<run::RunPaths> all = registry.All();
  const auto newest = std::find_if(all.rbegin(), all.rend(), [&name](const run::RunPaths& run) {
    return run::JobNameOf(run::BaseName(run.root)) == name;
  });
  return newest == all.rend() ? std::move(chosen) : std::move(*newest);
}

int PrintSummary(const run::RunPaths& run, bool is_json, const run::Console& console) {
  const Result<std::string> summary = ReadFile(is_json ? run.summary_json() : run.summary_text());
  if (!summary.ok()) {
    return run::Fail(
        console,
        Status::NotFound(fmt::format(
            "{} has ended and left no summary; its logs are in {}, and psctl resume {} goes on",
            run::BaseName(run.root),
            run.logs(),
            run.root)));
  }
  console.out(*summary);
  return run::kExitOk;
}

}  // namespace ps::psctl
