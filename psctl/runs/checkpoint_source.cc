#include "psctl/runs/checkpoint_source.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "ps/base/text.h"
#include "ps/proto/job/job_config.h"
#include "ps/proto/job/task.h"
#include "ps/proto/state/job_state.h"
#include "psctl/view/checkpoint_view.h"
#include "run/directory/model_export.h"

namespace ps::psctl {
namespace {

using checkpoint::CheckpointId;
using checkpoint::Manifest;

Result<CheckpointId> Choose(const CheckpointSource& source, CheckpointId chosen) {
  const std::vector<CheckpointId>& ids = source.ids;
  if (ids.empty()) {
    return Status::NotFound(fmt::format("{} has no checkpoint", source.name));
  }
  if (chosen != 0 && !std::binary_search(ids.begin(), ids.end(), chosen)) {
    return Status::NotFound(fmt::format(
        "no checkpoint {} in {}; there are: {}", chosen, source.name, NumbersText(ids)));
  }
  return chosen == 0 ? ids.back() : chosen;
}

}  // namespace

std::optional<BestCheckpoint> BestSaidBy(const Manifest& manifest) {
  const Result<proto::JobState> state = proto::DecodeJobState(manifest.job_state);
  const Result<proto::JobConfig> config = proto::ParsePrintedJobConfig(manifest.config_json);
  if (!state.ok() || !config.ok() || state->checkpoints.best.empty()) {
    return std::nullopt;
  }
  const proto::EpochCheckpoint& best = state->checkpoints.best.front();
  const std::string metric(proto::NameOf(config->checkpoint.best.metric, config->model));
  return BestCheckpoint{best.checkpoint, best.epoch, metric, best.score};
}

Result<Manifest> ReadChosen(const CheckpointSource& source, CheckpointId chosen) {
  PS_ASSIGN(const CheckpointId id, Choose(source, chosen));
  return source.read(id);
}

std::string NumbersText(const std::vector<CheckpointId>& ids) {
  std::vector<std::string> texts;
  for (const CheckpointId id : ids) {
    texts.push_back(std::to_string(id));
  }
  return texts.empty() ? "none" : Join(texts);
}

int ListCheckpoints(
    const CheckpointCommand& command, const CheckpointSource& source, const run::Console& console) {
  std::vector<Manifest> manifests;
  int code = run::kExitOk;
  for (const CheckpointId id : source.ids) {
    Result<Manifest> manifest = source.read(id);
    if (manifest.ok()) {
      manifests.push_back(std::move(manifest).value());
    } else {
      code = run::Fail(console, manifest.status());
    }
  }
  std::optional<BestCheckpoint> best = source.best;
  if (!best && !manifests.empty()) {
    best = BestSaidBy(manifests.back());
  }
  if (command.is_json) {
    console.out(CheckpointsToJson(manifests, best));
  } else if (source.ids.empty()) {
    console.err(source.name + " has no checkpoint\n");
  } else {
    console.out(RenderCheckpoints(manifests, best, console.out_width));
  }
  return code;
}

int ShowCheckpoint(
    const CheckpointCommand& command, const CheckpointSource& source, const run::Console& console) {
  const Result<Manifest> manifest = ReadChosen(source, command.first);
  if (!manifest.ok()) {
    return run::Fail(console, manifest.status());
  }
  console.out(RenderCheckpoint(*manifest, run::JobName(*manifest), console.out_width));
  return run::kExitOk;
}

int VerifyCheckpoints(
    const CheckpointCommand& command, const CheckpointSource& source, const run::Console& console) {
  std::vector<CheckpointId> ids = source.ids;
  if (!command.is_all) {
    const Result<CheckpointId> id = Choose(source, command.first);
    if (!id.ok()) {
      return run::Fail(console, id.status());
    }
    ids = {*id};
  }
  std::vector<Verified> all;
  int code = run::kExitOk;
  for (const CheckpointId id : ids) {
    Verified verified;
    verified.id = id;
    verified.damages = source.verify(id);
    if (const auto manifest = source.read(id); manifest.ok()) {
      verified.chunks = manifest->chunks.size();
      verified.logical_bytes = TotalStats(*manifest).logical_bytes;
    }
    code = verified.damages.empty() ? code : run::kExitFailed;
    if (!command.is_json) {
      console.out(RenderVerified(verified));
    }
    all.push_back(std::move(verified));
  }
  if (command.is_json) {
    console.out(VerifiedToJson(all));
  }
  return code;
}

}  // namespace ps::psctl
