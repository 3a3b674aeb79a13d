#include "run/report/job_view.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "kernels/optimizer_slots.h"
#include "ps/base/host_port.h"
#include "ps/base/text.h"
#include "ps/proto/exchange.h"
#include "ps/proto/job/optimizer_rules.h"
#include "ps/proto/job/task.h"
#include "ps/proto/timing.h"
#include "run/report/rate_notes.h"
#include "worker/model/causal.h"
#include "worker/model/norm_batches.h"
#include "worker/script/script_start.h"

namespace ps::run {
namespace {

constexpr uint32_t kServerLinesMax = 16;

std::string_view HowServersStart(const proto::ServerConfig& servers) {
  if (!servers.launch) {
    return " started by hand";
  }
  constexpr std::string_view kHow[] = {"", " over ssh", " by Slurm", " by Kubernetes"};
  return kHow[static_cast<size_t>(servers.launcher)];
}

/// "0 = iris, 1 = rose"
std::string ClassesText(const std::vector<std::string>& names) {
  constexpr size_t kShownMax = 8;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kShownMax); ++i) {
    text += fmt::format("{}{} = {}", i == 0 ? "" : ", ", i, Printable(names[i]));
  }
  const std::string more = FormatCount(names.size() - std::min(names.size(), kShownMax));
  return text + (names.size() > kShownMax ? fmt::format(" and {} more", more) : "");
}

/// "README.txt: called like data, and left out"
std::string LeftOutText(proto::DatasetFormat format, const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) {
    text += (text.empty() ? "" : ", ") + Printable(name);
  }
  return text + (format == proto::DatasetFormat::kPictures
                     ? ": left out, since they are no png, jpg or jpeg in the folder of a class"
                     : ": left out, since files that are called so tell people of the data");
}

/// What ps_worker is told where a program computes, for a shell; empty: nothing.
std::string ProgramFlags(const proto::WorkerConfig& worker) {
  if (worker.program.empty()) {
    return "";
  }
  const auto quoted = [](const std::string& text) {
    std::string word = "'";
    for (const char c : text) {
      word += c == '\'' ? std::string("'\\''") : std::string(1, c);
    }
    return word + "'";
  };
  return fmt::format(
      " --program {} --directory {}",
      quoted(worker::PrintWords(worker.program)),
      quoted(worker.directory));
}

std::string ServerCommand(
    const proto::ServerConfig& servers, const std::string& common, uint32_t server) {
  std::string text = fmt::format("  ps_server {} --id {}", common, server);
  if (servers.shards_per_server != 1) {
    text += fmt::format(" --shards {}", servers.shards_per_server);
  }
  if (servers.port != 0) {
    text += fmt::format(" --port {}", servers.port + server * servers.shards_per_server);
  }
  return text + "\n";
}

/// How often the model travels, as what, and what that comes to.
std::string ExchangeLine(const proto::JobConfig& config, const JobParts& parts) {
  const proto::TrainConfig& train = config.train;
  std::string text = train.local_steps == 1
                         ? "for each minibatch"
                         : fmt::format("once in {} minibatches", train.local_steps);
  const codec::Encoding push = proto::PushEncodingOf(config);
  const codec::Encoding pull = proto::PullEncodingOf(config);
  text += fmt::format(
      ", gradients as {}{}, parameters as {}{}",
      push.ToText(),
      proto::HasErrorFeedback(config) ? " with error feedback" : "",
      proto::HasDifferences(pull) ? "differences in " : "",
      pull.ToText());
  const proto::AutoSettings chosen = proto::AutoSettingsOf(config);
  if (chosen != proto::AutoSettings()) {
    text += fmt::format(
        " at first; {}{}{} by the links (auto)",
        chosen.push ? "gradients" : "",
        chosen.push && chosen.local_steps ? " and " : "",
        chosen.local_steps ? "local steps" : "");
  }
  const auto count = static_cast<uint64_t>(std::max<int64_t>(parts.model.trained_count(), 0));
  const uint64_t samples = uint64_t{train.minibatch} * train.local_steps;
  text += fmt::format(
      ": a sample {} and {}",
      FormatBytes(push.SizeOf(count) / samples),
      FormatBytes(static_cast<uint64_t>(proto::PulledBytesOf(pull, count)) / samples));
  if (train.local_steps > 1) {
    const proto::OptimizerConfig outer = proto::ServerOptimizer(config);
    text += fmt::format(
        "; outer {}, lr {:g}, momentum {:g}",
        config::kOuterKindNames[static_cast<size_t>(proto::OuterKindOf(config))],
        outer.lr,
        outer.momentum);
    text += outer.every > 0 ? fmt::format(", every {}", outer.every) : "";
  }
  return text;
}

/// What servers keep of what workers hold, and whether there is room for all of it. Parameters are
/// taken to lie evenly on the shards.
std::string HeldValuesNote(const proto::JobConfig& config, const JobParts& parts) {
  const auto count = static_cast<uint64_t>(std::max<int64_t>(parts.model.parameter_count(), 0));
  const uint64_t shards = uint64_t{config.servers.count} * config.servers.shards_per_server;
  const uint64_t bytes =
      std::max<uint64_t>(count * sizeof(float) / std::max<uint64_t>(shards, 1), 1);
  const uint64_t room = (uint64_t{config.servers.held_mib} << 20U) / bytes;
  const uint32_t workers = proto::WorkersAtStart(config);
  std::string text = fmt::format(
      "with exchange.pull {} each shard keeps a copy of its parameters, {}, for each worker",
      config.exchange.pull,
      FormatBytes(bytes));
  if (room < workers) {
    text += fmt::format(
        "; servers.held_mib has room for {} of {} workers, and the others pull bf16",
        room,
        workers);
  }
  return text;
}

/// A part of the data that somebody may think epochs are measured on; empty: there is none.
std::string UnusedValidationNote(const worker::UnusedValidation& unused) {
  return unused.part.empty()
             ? ""
             : fmt::format(
                   "{} in data.directory is {}; with data.validation={} epochs are measured on it, "
                   "and the test samples once, at the end",
                   Printable(unused.file),
                   unused.is_trained ? "one more text to train and test on" : "not used",
                   Printable(unused.part));
}

/// A last layer that cuts off what the loss takes; empty: there is none.
std::string LastLayerNote(const proto::JobConfig& config, const worker::Model& model) {
  const proto::Task task = proto::TaskOf(config.model);
  if (model.layers.empty() || task == proto::Task::kNumbers) {
    return "";
  }
  const proto::LayerKind kind = model.layers.back().kind;
  const bool cuts = kind == proto::LayerKind::kSigmoid || kind == proto::LayerKind::kTanh ||
                    kind == proto::LayerKind::kRelu;
  return !cuts ? ""
               : fmt::format(
                     "the last layer is {}, and the loss has its own {}, which takes any numbers: "
                     "with both little is learnt; leave the layer out",
                     worker::LayerKindName(kind),
                     task == proto::Task::kLabels ? "sigmoid" : "softmax");
}

/// Attention that sees what is to be learnt; empty: there is none.
std::string SeenTokensNote(const proto::JobConfig& config, const worker::Model& model) {
  const bool is_next_token = config.worker.program.empty() &&
                             config.data.format == proto::DatasetFormat::kText &&
                             config.data.mask == 0;
  return !is_next_token || worker::IsCausal(model)
             ? ""
             : "each token's label is the next one, which attention that is not causal sees: the "
               "loss says little then; set \"causal\": true, or hide tokens by data.mask";
}

/// What is allowed and may give other results than somebody expects.
std::vector<std::string> JobNotes(const proto::JobConfig& config, const JobParts& parts) {
  std::vector<std::string> notes;
  if (std::string note = UnusedValidationNote(parts.data.unused_validation); !note.empty()) {
    notes.push_back(std::move(note));
  }
  if (parts.script) {
    if (std::string note = parts.script->OptimizerNote(config); !note.empty()) {
      notes.push_back(std::move(note));
    }
  }
  for (std::string note :
       {LastLayerNote(config, parts.model), SeenTokensNote(config, parts.model)}) {
    if (!note.empty()) {
      notes.push_back(std::move(note));
    }
  }
  if (config.goal.loss > 0 && config.train.mode != proto::Mode::kAsync) {
    notes.push_back(fmt::format(
        "goal is planned with the speed of workers that do not wait for each other; in {} "
        "(train.mode) they are slower, so it may take longer than planned",
        proto::ModeName(config.train.mode)));
  }
  for (std::string& note : RateNotes(config)) {
    notes.push_back(std::move(note));
  }
  const bool is_bsp = config.train.mode == proto::Mode::kBsp;
  const bool has_rounds = is_bsp && proto::WorkersAtStart(config) != 1;
  if (has_rounds && config.optimizer.clip_norm > 0) {
    notes.emplace_back(
        "bsp with optimizer.clip_norm: each worker clips its own gradient before they are "
        "averaged, so a round is not quite one step on one big minibatch");
  }
  if (has_rounds && worker::HasBatchNorm(parts.model)) {
    notes.emplace_back(
        "bsp with batch_norm: each worker normalises over its own minibatch, so a round is not "
        "quite one step on one big minibatch");
  }
  const uint64_t step_samples = uint64_t{config.train.minibatch} * config.train.local_steps;
  const uint64_t share = parts.data.train_count / std::max(proto::WorkersAtStart(config), 1U);
  if (config.train.local_steps > 1 && step_samples > share) {
    notes.emplace_back(fmt::format(
        "a step of train.local_steps has {} samples, and an epoch {} for each worker: some of them "
        "have nothing to do at its end; {} local steps would fit",
        FormatCount(step_samples),
        FormatCount(share),
        std::max<uint64_t>(share / config.train.minibatch, 1)));
  }
  if (proto::HasDifferences(proto::PullEncodingOf(config))) {
    notes.push_back(HeldValuesNote(config, parts));
  }
  const auto least = static_cast<uint64_t>(worker::LeastTrainBatch(parts.model));
  const uint64_t rest = parts.data.train_count % std::max<uint32_t>(config.train.minibatch, 1);
  if (rest > 0 && rest < least) {
    notes.emplace_back(fmt::format(
        "the last minibatch of an epoch has one sample, from which a batch_norm of this model can "
        "learn nothing; with data.train_samples={} there is none such",
        parts.data.train_count - rest));
  }
  return notes;
}

/// "487,096 parameters in 38 tensors, and 120,000 that nobody trains"
std::string ModelText(const JobParts& parts) {
  std::string text = FormatCount(static_cast<uint64_t>(parts.model.parameter_count())) +
                     " parameters in " + Plural(parts.model.tensors.size(), "tensor");
  uint64_t frozen = 0;
  if (parts.script) {
    for (const TensorSpec& tensor : parts.script->description().frozen) {
      frozen += static_cast<uint64_t>(tensor.element_count());
    }
  }
  const int64_t kept = parts.model.parameter_count() - parts.model.trained_count();
  if (kept > 0) {
    text += ", of which " + FormatCount(static_cast<uint64_t>(kept)) + " are frozen";
  }
  return frozen == 0 ? text : text + ", and " + FormatCount(frozen) + " that nobody trains";
}

}  // namespace

std::vector<std::pair<std::string, std::string>> DescribeJob(
    const proto::JobConfig& config, const JobParts& parts) {
  const proto::Timing timing = proto::Timing::Of(config);
  const uint32_t workers = proto::WorkersAtStart(config);
  const std::string faults =
      config.faults.empty() ? "" : ", " + Plural(config.faults.size(), "planned disturbance");
  std::vector<std::pair<std::string, std::string>> pairs = {
      {"job", Printable(config.name)},
      {"model", ModelText(parts)},
      {"data",
       FormatCount(parts.data.train_count) +
           (parts.data.validation_count > 0
                ? " training, " + FormatCount(parts.data.validation_count) + " validation"
                : " training") +
           " and " + FormatCount(parts.data.test_count) + " test samples"},
      {"fleet",
       Plural(config.servers.count, "server") + " of " +
           Plural(config.servers.shards_per_server, "shard") +
           std::string(HowServersStart(config.servers)) + ", " +
           (workers == 0 ? "workers started by hand" : Plural(workers, "worker")) + faults},
      {"times",
       "a silent worker is lost after " + FormatDuration(Seconds(timing.detect)) +
           ", a server after " + FormatDuration(Seconds(timing.server_detect)) +
           ", heartbeat every " + FormatDuration(Seconds(timing.heartbeat))}};
  if (config.train.local_steps > 1 || proto::PushEncodingOf(config).is_lossy() ||
      proto::PullEncodingOf(config).is_lossy() ||
      proto::AutoSettingsOf(config) != proto::AutoSettings()) {
    pairs.emplace_back("exchange", ExchangeLine(config, parts));
  }
  if (!parts.taken.empty()) {
    pairs.emplace_back("from", parts.taken);
  }
  if (!parts.data.class_names.empty()) {
    pairs.emplace_back("classes", ClassesText(parts.data.class_names));
  }
  if (!parts.data.left_out.empty()) {
    pairs.emplace_back("no data", LeftOutText(config.data.format, parts.data.left_out));
  }
  for (std::string& note : JobNotes(config, parts)) {
    pairs.emplace_back("note", std::move(note));
  }
  return pairs;
}

std::string RenderDiskWarning(
    const proto::JobConfig& config,
    const JobParts& parts,
    const std::string& path,
    uint64_t free_bytes) {
  const uint64_t model =
      static_cast<uint64_t>(std::max<int64_t>(parts.model.parameter_count(), 0)) * sizeof(float);
  const uint64_t slot =
      config.checkpoint.slots == proto::CheckpointSlots::kBf16 ? model / 2 : model;
  const uint64_t checkpoint =
      model +
      static_cast<uint64_t>(kernels::OptimizerSlotCount(proto::ServerOptimizer(config))) * slot;
  const proto::BestConfig& best = config.checkpoint.best;
  const uint64_t of_epochs = best.is_on() ? uint64_t{best.keep} + 1 : 0;  // and one to be judged
  const uint64_t count =
      config.checkpoint.enabled ? uint64_t{config.checkpoint.keep} + 1 + of_epochs : 0;
  const uint64_t need = model + count * checkpoint;
  if (need <= free_bytes) {
    return "";
  }
  const std::string checkpoints =
      count == 0
          ? ""
          : fmt::format(
                " and {} checkpoints of {} with the optimizer's state (checkpoint.keep{} and "
                "the one that is being written)",
                count,
                FormatBytes(checkpoint),
                of_epochs == 0 ? "" : ", checkpoint.best.keep, an epoch that is measured");
  return fmt::format(
      "the disk may become full: {} has {} free, and the run may come to need {}: a model of {}{}; "
      "make room{}",
      Printable(path),
      FormatBytes(free_bytes),
      FormatBytes(need),
      FormatBytes(model),
      checkpoints,
      count == 0 ? "" : ", lower checkpoint.keep or set checkpoint.path");
}

std::string RenderHandStart(const proto::JobConfig& config, const HandStart& start) {
  const proto::ServerConfig& servers = config.servers;
  const bool has_workers = proto::WorkersAtStart(config) > 0;
  if (servers.launch && has_workers) {
    return "";
  }
  std::string text = fmt::format(
      "start these within {} (fleet.join_timeout_s), on machines that have a copy of {}:\n",
      FormatDuration(config.fleet.join_timeout_s),
      Printable(start.token_file));
  const std::string common = "--coordinator " + start.coordinator + " --token-file token";
  if (!servers.launch) {
    for (uint32_t i = 0; i < servers.count && i < kServerLinesMax; ++i) {
      text += ServerCommand(servers, common, i);
    }
    if (servers.count > kServerLinesMax) {
      text += "  ... and so on to\n" + ServerCommand(servers, common, servers.count - 1);
    }
  }
  if (!has_workers) {
    text += "  ps_worker " + common + ProgramFlags(config.worker) +
            "   (as many as there are to be, now or later)\n";
  }
  const Result<HostPort> coordinator = ParseHostPort(start.coordinator);
  if (coordinator.ok() && IsLoopback(coordinator->host)) {
    text += fmt::format(
        "other machines do not reach {}: for them set run.listen to {}, or to 0.0.0.0 for all "
        "addresses of this machine\n",
        coordinator->host,
        start.own_address.empty() ? "an address of this machine" : start.own_address);
  }
  return text;
}

}  // namespace ps::run
