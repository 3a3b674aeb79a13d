#include "psctl/runs/chosen_run.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "ps/base/file.h"
#include "ps/proto/job/job_config.h"
#include "psctl/remote/forward.h"
#include "run/directory/files.h"
#include "run/directory/head_file.h"

namespace ps::psctl {

namespace {

/// The run on a rented machine that `job` means: by its directory's name, or its job's. Errors:
/// kNotFound, kInvalidArgument (several).
Result<run::RunPaths> RunElsewhere(const std::string& job, const run::RunRegistry& registry) {
  std::vector<run::RunPaths> found;
  std::string names;
  for (const run::RunPaths& run : registry.All()) {
    const std::string name = run::BaseName(run.root);
    if ((job.empty() || job == name || job == run::JobNameOf(name)) && run::IsElsewhere(run)) {
      found.push_back(run);
      names += (names.empty() ? "" : ", ") + name;
    }
  }
  if (found.size() > 1) {
    return Status::InvalidArgument(
        fmt::format("several runs are on rented machines; name one: {}", names));
  }
  return found.empty() ? Result<run::RunPaths>(Status::NotFound("none")) : found.front();
}

Result<run::RunPaths> OrElsewhere(
    Result<run::RunPaths> here, const std::string& job, const run::RunRegistry& registry) {
  if (here.ok() || here.status().code() != StatusCode::kNotFound) {
    return here;
  }
  Result<run::RunPaths> there = RunElsewhere(job, registry);
  return !there.ok() && there.status().code() == StatusCode::kNotFound ? here : there;
}

}  // namespace

std::optional<int> AskItsHead(
    const run::RunPaths& run, const std::string& run_word, const Session& session) {
  const Result<std::optional<run::HeadFile>> head = run::ReadHeadFile(run);
  if (!head.ok()) {
    return run::Fail(session.console, head.status());
  }
  if (!head->has_value() || (*head)->is_fetched || (*head)->is_given_back) {
    return std::nullopt;
  }
  const Result<int> code = Forward(run, **head, run_word, session);
  return code.ok() ? *code : run::Fail(session.console, code.status());
}

Result<run::RunPaths> ChooseRun(const std::string& job, const run::RunRegistry& registry) {
  std::error_code error;
  if (job.ends_with(".json") && std::filesystem::is_regular_file(job, error)) {
    PS_ASSIGN(
        const proto::JobConfig config, proto::LoadJobConfig(job, {}, proto::DataPlace::kElsewhere));
    return OrElsewhere(registry.Resolve(config.name), config.name, registry);
  }
  if (!job.empty()) {
    return OrElsewhere(registry.Resolve(job), job, registry);
  }
  const std::vector<run::RunningJob> running = registry.Find();
  if (running.empty()) {
    return OrElsewhere(Status::NotFound("no job is running"), "", registry);
  }
  if (const Result<run::RunPaths> there = RunElsewhere("", registry);
      there.ok() || there.status().code() != StatusCode::kNotFound) {
    return Status::InvalidArgument(
        "a run goes on here, and another one on a rented machine; name one: psctl runs lists them");
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
    PS_ASSIGN(
        const proto::JobConfig config, proto::LoadJobConfig(job, {}, proto::DataPlace::kElsewhere));
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
