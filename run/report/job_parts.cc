#include "run/report/job_parts.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "ps/base/file.h"
#include "ps/base/text.h"
#include "ps/coordinator/checkpoints/model_file.h"
#include "ps/coordinator/state/placement.h"
#include "ps/json/json_value.h"
#include "ps/proto/job/job_check.h"
#include "ps/proto/job/job_limits.h"
#include "ps/proto/job/task.h"
#include "ps/proto/limits.h"
#include "run/report/console.h"
#include "run/report/data_watch.h"
#include "worker/model/norm_batches.h"
#include "worker/script/description.h"

namespace ps::run {
namespace {

uint64_t LargestShardBytes(const proto::JobConfig& config, const worker::Model& model) {
  const uint32_t shards = config.servers.count * config.servers.shards_per_server;
  const proto::Placement placement =
      coordinator::PlaceChunks(model.tensors, uint64_t{config.servers.chunk_kib} << 10, shards);
  std::vector<uint64_t> bytes(shards, 0);
  for (const proto::ChunkAssignment& chunk : placement.chunks) {
    bytes[chunk.shard.value] += uint64_t{chunk.element_count} * sizeof(float);
  }
  return *std::max_element(bytes.begin(), bytes.end());
}

/// What judges epochs needs samples to judge them by.
Status CheckJudged(const proto::JobConfig& config, const worker::DatasetInfo& data) {
  const bool is_early = config.train.stop_early.after_epochs > 0;
  if ((!is_early && !config.checkpoint.best.is_on()) || data.test_count > 0 ||
      data.validation_count > 0) {
    return Status::Ok();
  }
  return Status::InvalidArgument(fmt::format(
      "{} judges epochs by samples that training does not see, and there are none; allowed: with "
      "test samples, or data.validation, or data.validation_share above 0",
      is_early ? "train.stop_early" : "checkpoint.best"));
}

Status CheckLimits(const proto::JobConfig& config, const worker::Model& model) {
  PS_TRY(proto::CheckModelLimits(config, model.tensors));
  return proto::CheckRoundLimits(config, LargestShardBytes(config, model));
}

/// "8 of 10 tensors, by their names in PyTorch; drawn: 9.linear.weight (its tensor ...)".
std::string TakenText(
    const checkpoint::TensorMatch& match, const std::vector<TensorSpec>& tensors) {
  constexpr size_t kNamesMax = 6;  // of each list
  std::vector<std::string> drawn;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (match.stored[i] == nullptr) {
      drawn.push_back(tensors[i].name);
    }
  }
  const auto list = [kNamesMax](const char* what, std::vector<std::string> names) {
    const size_t more = names.size() - std::min(names.size(), kNamesMax);
    names.resize(names.size() - more);
    return names.empty() ? std::string()
                         : fmt::format(
                               "; {}: {}{}",
                               what,
                               Join(names),
                               more == 0 ? "" : fmt::format(" and {} more", more));
  };
  std::vector<std::string> unused;
  for (const checkpoint::StoredTensor* tensor : match.unused) {
    unused.push_back(Clip(Printable(tensor->name), 80));
  }
  const std::string_view by = match.kind == checkpoint::MatchKind::kName ? "by name"
                              : match.kind == checkpoint::MatchKind::kTorchName
                                  ? "by their names in PyTorch"
                                  : "in the order of the layers";
  std::string text =
      fmt::format("{} of {} tensors, {}", tensors.size() - drawn.size(), tensors.size(), by);
  text += list("drawn", std::move(drawn));
  text += list("in another shape", match.misfits);
  return text + list("not used", std::move(unused));
}

/// Whether the job file says by which rule the servers step, not only when and how far. Where there
/// is no such file the config is that of an earlier run, which says everything.
bool NamesOptimizer(const std::string& path, const std::vector<proto::ConfigOverride>& overrides) {
  const Result<std::string> text = ReadFile(path, proto::kConfigBytesMax);
  Result<JsonValue> root = text.ok() ? ParseJson(*text, path) : Result<JsonValue>(text.status());
  for (size_t i = 0; root.ok() && i < overrides.size(); ++i) {
    if (!proto::ApplyOverride(*root, overrides[i], static_cast<int>(i) + 1).ok()) {
      return true;
    }
  }
  if (!root.ok()) {
    return true;
  }
  const JsonValue* const optimizer = root->At("optimizer");
  return optimizer != nullptr && std::ranges::any_of(optimizer->children, [](const auto& field) {
           return field.key != "schedule" && field.key != "clip_value";
         });
}

Result<JobParts> PartsOfScript(const proto::JobConfig& config, bool names_optimizer) {
  JobParts parts;
  const std::string& from = config.model.from;
  bool is_known = false;
  if (!from.empty()) {
    PS_ASSIGN(is_known, worker::HasDescription(from).Annotate("model.from"));
  }
  PS_ASSIGN(parts.script, is_known ? ScriptParts::Read(from) : ScriptParts::Ask(config));
  if (!from.empty() && !is_known) {
    PS_TRY(parts.script->TakeValuesFrom(from));
  }
  PS_ASSIGN(const proto::JobConfig complete, parts.script->Complete(config, names_optimizer));
  parts.data.train_count = complete.data.train_samples;
  parts.data.test_count = complete.data.test_samples;
  parts.model.tensors = parts.script->description().tensors;
  PS_TRY(CheckJudged(complete, parts.data));
  PS_TRY(CheckLimits(config, parts.model));
  return parts;
}

Result<JobParts> PartsOf(
    const proto::JobConfig& config, const proto::DatasetFingerprint* known = nullptr) {
  JobParts parts;
  const proto::Task task = proto::TaskOf(config.model);
  if (known == nullptr) {
    DataWatch watch(config.data.directory, ProcessConsole().err);
    PS_ASSIGN(parts.data, worker::Dataset::Inspect(config.data, task, watch.progress()));
  } else {
    PS_ASSIGN(parts.data, worker::Dataset::InspectKnown(config.data, *known, task));
  }
  PS_ASSIGN(
      parts.model,
      worker::MakeModel(config.model, parts.data.shape, parts.data.classes, parts.data.labels));
  PS_TRY(worker::TreatTensors(config, &parts.model));
  PS_TRY(CheckJudged(config, parts.data));
  PS_TRY(worker::CheckTrainBatches(config, parts.model));
  PS_TRY(CheckLimits(config, parts.model));
  if (!config.model.from.empty()) {
    PS_ASSIGN(const auto source, coordinator::ModelFileSource::Open(config, parts.model.tensors));
    parts.taken = TakenText(source->match(), parts.model.tensors);
  }
  return parts;
}

}  // namespace

Result<JobParts> LoadParts(
    const proto::JobConfig& config,
    const std::string& path,
    const std::vector<proto::ConfigOverride>& overrides,
    const proto::DatasetFingerprint* known) {
  Result<JobParts> parts = config.worker.program.empty()
                               ? PartsOf(config, known)
                               : PartsOfScript(config, NamesOptimizer(path, overrides));
  if (!parts.ok()) {
    return proto::AtItsField(parts.status(), path, overrides);
  }
  return parts;
}

Result<proto::JobConfig> CompleteJob(
    const proto::JobConfig& config,
    const JobParts& parts,
    const std::string& path,
    const std::vector<proto::ConfigOverride>& overrides) {
  if (!parts.script) {
    return config;
  }
  Result<proto::JobConfig> complete =
      parts.script->Complete(config, NamesOptimizer(path, overrides));
  return complete.ok() ? complete : proto::AtItsField(complete.status(), path, overrides);
}

Status CheckData(
    const proto::JobConfig& config,
    const std::string& path,
    const std::vector<proto::ConfigOverride>& overrides) {
  if (!config.worker.program.empty()) {
    return Status::Ok();  // it reads them
  }
  const auto check = [&]() -> Status {
    {
      DataWatch watch(config.data.directory, ProcessConsole().err);
      const proto::Task task = proto::TaskOf(config.model);
      PS_ASSIGN(
          const worker::Dataset data, worker::Dataset::Load(config.data, watch.progress(), task));
      PS_TRY(data.CheckAll(watch.progress()));
    }
    if (config.model.from.empty()) {
      return Status::Ok();
    }
    PS_ASSIGN(const JobParts parts, PartsOf(config));
    PS_ASSIGN(const auto source, coordinator::ModelFileSource::Open(config, parts.model.tensors));
    return source->CheckValues().Annotate("model.from");
  };
  const Status checked = check();
  return checked.ok() ? checked : proto::AtItsField(checked, path, overrides);
}

}  // namespace ps::run
