#include "psctl/remote/head_resume.h"

#include <fmt/core.h>

#include <filesystem>
#include <string>
#include <system_error>

#include "ps/base/text.h"
#include "psctl/remote/head_job.h"
#include "run/directory/head_file.h"
#include "run/directory/resumable.h"
#include "run/directory/run_checkpoints.h"

namespace ps::psctl {
namespace {

/// Says what the checkpoint is, and what the order may not change of its job.
Status DescribeNewest(const std::string& path, const run::ResumeOrder& order, HeadResume* resume) {
  PS_ASSIGN(const run::FoundCheckpoint found, run::FindNewestCheckpoint(path));
  const std::string name = fmt::format("the job of checkpoint {}", found.manifest.id);
  PS_TRY(proto::ParseJobConfig(
             found.manifest.config_json, name, order.overrides, proto::DataPlace::kElsewhere)
             .status());
  const checkpoint::Progress& progress = found.manifest.progress;
  resume->beginning.from = path;
  resume->found = fmt::format(
      "going on from checkpoint {} in {}: {}, {}, {}",
      found.manifest.id,
      Printable(path),
      Plural(progress.epoch, "epoch"),
      Plural(progress.steps, "step"),
      Plural(progress.samples, "sample"));
  return Status::Ok();
}

/// What the ended run has left to go on from: its checkpoints if they have all arrived here, else
/// the copies of them, else what it has itself gone on from.
Status FindLeft(
    const run::RunPaths& run,
    const run::HeadFile& head,
    const run::ResumeOrder& order,
    HeadResume* resume) {
  const std::string path = run::CheckpointPathOf(run);
  if (head.is_fetched && run::IsCheckpointPath(path)) {
    return DescribeNewest(path, order, resume);
  }
  const std::string& copies = resume->config.checkpoint.copy_to;
  if (IsInBucket(copies)) {
    resume->beginning.from = copies;
    resume->found = "going on from the newest copy in " + Printable(copies);
    return Status::Ok();
  }
  if (!head.is_fetched && run::IsCheckpointPath(head.from)) {
    return DescribeNewest(head.from, order, resume);
  }
  return Status::NotFound(fmt::format(
      "{} has left no checkpoint: one that is done has none to go on from, and checkpoint.copy_to "
      "names no bucket",
      run::BaseName(run.root)));
}

/// What a command names: the run, where it names the checkpoints that a run with a head has left
/// here.
std::string RunNamedBy(const std::string& from) {
  std::filesystem::path path = std::filesystem::absolute(from).lexically_normal();
  path = path.has_filename() ? path : path.parent_path();
  const run::RunPaths run = {path.parent_path().string()};
  std::error_code error;
  const bool has_head = std::filesystem::exists(run.head(), error);
  return has_head && run.checkpoints() == path.string() ? run.root : from;
}

}  // namespace

Result<std::optional<HeadResume>> HeadResumeOf(
    const run::ResumeOrder& order, const run::RunRegistry& registry) {
  if (IsInBucket(order.from)) {
    return std::optional<HeadResume>();
  }
  const std::string from = RunNamedBy(order.from);
  if (run::IsCheckpointPath(from)) {
    return std::optional<HeadResume>();
  }
  const Result<run::RunPaths> run = run::ResolveToResume(from, registry);
  if (!run.ok()) {
    return std::optional<HeadResume>();  // ps_coordinator says why
  }
  PS_ASSIGN(const std::optional<run::HeadFile> head, run::ReadHeadFile(*run));
  if (!head) {
    return std::optional<HeadResume>();
  }
  const std::string name = run::BaseName(run->root);
  if (!head->is_given_back) {
    return Status::Unavailable(fmt::format(
        "{0} is on a rented machine; psctl attach {0} shows it, and fetches it once it has ended",
        name));
  }
  HeadResume resume;
  PS_ASSIGN(
      resume.config,
      proto::LoadJobConfig(run->config(), order.overrides, proto::DataPlace::kElsewhere));
  resume.config.model.from.clear();  // the checkpoint has the values
  // The checkpoint may be older than the resume before, and then lacks its changes.
  resume.beginning.changes = head->changes;
  resume.beginning.is_trusted = order.is_trusted;
  for (const proto::ConfigOverride& change : order.overrides) {
    resume.beginning.changes.push_back(change.key + "=" + change.value);
  }
  PS_TRY(FindLeft(*run, *head, order, &resume));
  return std::optional(std::move(resume));
}

}  // namespace ps::psctl
