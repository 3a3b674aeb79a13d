#include "psctl/view/checkpoint_view.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <map>
#include <utility>

#include "ps/base/text.h"
#include "ps/json/json_writer.h"
#include "run/report/tables.h"

namespace ps::psctl {
namespace {

using checkpoint::Manifest;
using checkpoint::TensorDifference;
using checkpoint::WriteStats;

/// "2026-07-20 09:05:07".
std::string TimeText(int64_t unix_micros) {
  const auto seconds = static_cast<std::time_t>(unix_micros / 1'000'000);
  std::tm utc{};
  char text[32] = "?";
  if (::gmtime_r(&seconds, &utc) != nullptr) {
    std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &utc);
  }
  return text;
}

std::string LossOrDash(double loss) {
  return std::isfinite(loss) ? run::FormatLoss(loss) : "-";
}

std::string ShapeText(const std::vector<int64_t>& shape) {
  std::string text;
  for (const int64_t dimension : shape) {
    text += fmt::format("{}{}", text.empty() ? "" : "x", dimension);
  }
  return text.empty() ? "scalar" : text;
}

/// "1.2e-05": three digits of any magnitude.
std::string SmallNumber(double value) {
  return value == 0 ? "0" : fmt::format("{:.2e}", value);
}

void PutStats(const WriteStats& stats, JsonWriter* json) {
  json->Field("logical_bytes", stats.logical_bytes);
  json->Field("written_bytes", stats.written_bytes);
  json->Field("shared_bytes", stats.shared_bytes);
  json->Field("chunks_written", stats.chunks_written);
  json->Field("chunks_shared", stats.chunks_shared);
}

std::string RenderTensors(const Manifest& manifest, size_t width_max) {
  std::map<uint32_t, size_t> chunks;
  for (const checkpoint::PlacedChunk& chunk : manifest.chunks) {
    ++chunks[TensorOf(chunk.key)];
  }
  run::Table table(
      {{"tensor", run::Align::kLeft}, {"shape", run::Align::kLeft}, {"elements"}, {"chunks"}});
  for (uint32_t i = 0; i < manifest.tensors.size(); ++i) {
    const TensorSpec& tensor = manifest.tensors[i];
    table.AddRow(
        {Printable(tensor.name),
         ShapeText(tensor.shape),
         FormatCount(static_cast<uint64_t>(tensor.element_count())),
         FormatCount(chunks[i])});
  }
  return table.Render(width_max);
}

std::string RenderParts(const Manifest& manifest, size_t width_max) {
  run::Table table(
      {{"shard"},
       {"directory", run::Align::kLeft},
       {"in memory"},
       {"written"},
       {"shared"},
       {"chunks"}});
  for (const checkpoint::ManifestPart& part : manifest.parts) {
    const WriteStats& stats = part.summary.stats;
    table.AddRow(
        {std::to_string(part.shard.value),
         Printable(part.directory),
         FormatBytes(stats.logical_bytes),
         FormatBytes(stats.written_bytes),
         FormatBytes(stats.shared_bytes),
         FormatCount(stats.chunks_written + stats.chunks_shared)});
  }
  return table.Render(width_max);
}

}  // namespace

std::string RenderCheckpoints(
    const std::vector<Manifest>& manifests,
    const std::optional<BestCheckpoint>& best,
    size_t width_max) {
  run::Table table(
      {{"checkpoint"},
       {"written, UTC", run::Align::kLeft, 4},
       {"epoch"},
       {"steps", run::Align::kRight, 2},
       {"samples"},
       {"loss", run::Align::kRight, 1},
       {"in memory"},
       {"written"},
       {"shared"},
       {"new chunks", run::Align::kRight, 3}});
  for (const Manifest& manifest : manifests) {
    const WriteStats stats = TotalStats(manifest);
    table.AddRow(
        {std::to_string(manifest.id),
         TimeText(manifest.unix_micros),
         FormatCount(manifest.progress.epoch),
         FormatCount(manifest.progress.steps),
         FormatCount(manifest.progress.samples),
         LossOrDash(manifest.progress.loss),
         FormatBytes(stats.logical_bytes),
         FormatBytes(stats.written_bytes),
         FormatBytes(stats.shared_bytes),
         fmt::format(
             "{} of {}",
             FormatCount(stats.chunks_written),
             FormatCount(stats.chunks_written + stats.chunks_shared))});
  }
  std::string text = table.Render(width_max);
  if (best && std::ranges::find(manifests, best->id, &Manifest::id) != manifests.end()) {
    text += fmt::format(
        "best: checkpoint {}, of epoch {}, {} {:.4g}\n",
        best->id,
        best->epoch,
        Printable(best->metric),
        best->score);
  }
  return text;
}

std::string CheckpointsToJson(
    const std::vector<Manifest>& manifests, const std::optional<BestCheckpoint>& best) {
  JsonWriter json;
  json.BeginList();
  for (const Manifest& manifest : manifests) {
    json.BeginObject();
    json.Field("checkpoint", manifest.id);
    json.Field("unix_micros", manifest.unix_micros);
    json.Field("software", manifest.software);
    json.Field("shards", manifest.parts.size());
    json.Field("epoch", manifest.progress.epoch);
    json.Field("steps", manifest.progress.steps);
    json.Field("samples", manifest.progress.samples);
    json.Field("loss", manifest.progress.loss);
    json.Field("accuracy", manifest.progress.accuracy);
    json.Field("is_best", best && best->id == manifest.id);
    PutStats(TotalStats(manifest), &json);
    json.EndObject();
  }
  json.EndList();
  return std::move(json).Take();
}

std::string RenderCheckpoint(const Manifest& manifest, const std::string& job, size_t width_max) {
  uint64_t parameters = 0;
  for (const TensorSpec& tensor : manifest.tensors) {
    parameters += static_cast<uint64_t>(tensor.element_count());
  }
  const WriteStats stats = TotalStats(manifest);
  const checkpoint::Progress& progress = manifest.progress;
  const bool has_step = std::isfinite(progress.accuracy);
  return run::RenderPairs(
             {{"checkpoint", std::to_string(manifest.id)},
              {"job", Printable(job)},
              {"written",
               TimeText(manifest.unix_micros) + " UTC, by " + Printable(manifest.software)},
              {"progress",
               fmt::format(
                   "{} epochs finished, {} steps, {} samples",
                   FormatCount(progress.epoch),
                   FormatCount(progress.steps),
                   FormatCount(progress.samples))},
              {"training loss", LossOrDash(progress.loss)},
              {"training accuracy", has_step ? FormatPercent(progress.accuracy) : "-"},
              {"model",
               fmt::format(
                   "{} parameters in {}",
                   FormatCount(parameters),
                   Plural(manifest.tensors.size(), "tensor"))},
              {"in memory", FormatBytes(stats.logical_bytes)},
              {"written since the last", FormatBytes(stats.written_bytes)},
              {"shared with older ones", FormatBytes(stats.shared_bytes)}}) +
         "\n" + RenderParts(manifest, width_max) + "\n" + RenderTensors(manifest, width_max);
}

std::string RenderVerified(const Verified& verified) {
  if (verified.damages.empty()) {
    return fmt::format(
        "checkpoint {}: whole, {} of {}\n",
        verified.id,
        Plural(verified.chunks, "chunk"),
        FormatBytes(verified.logical_bytes));
  }
  std::string text;
  for (const checkpoint::Damage& damage : verified.damages) {
    text += fmt::format(
        "checkpoint {}: {}: {}\n",
        verified.id,
        Printable(damage.what),
        Printable(damage.status.ToString()));
  }
  return text;
}

std::string VerifiedToJson(const std::vector<Verified>& all) {
  JsonWriter json;
  json.BeginList();
  for (const Verified& verified : all) {
    json.BeginObject();
    json.Field("checkpoint", verified.id);
    json.Field("is_whole", verified.damages.empty());
    json.Field("chunks", verified.chunks);
    json.BeginList("damages");
    for (const checkpoint::Damage& damage : verified.damages) {
      json.BeginObject();
      json.Field("what", damage.what);
      json.Field("why", damage.status.ToString());
      json.EndObject();
    }
    json.EndList();
    json.EndObject();
  }
  json.EndList();
  return std::move(json).Take();
}

std::string RenderDifferences(const std::vector<TensorDifference>& differences, size_t width_max) {
  run::Table table(
      {{"tensor", run::Align::kLeft},
       {"elements"},
       {"changed, %"},
       {"largest change"},
       {"change / value, norms"}});
  for (const TensorDifference& difference : differences) {
    const double percent = 100.0 * static_cast<double>(difference.elements_changed) /
                           static_cast<double>(difference.elements);
    const double relative = difference.norm > 0 ? difference.change_norm / difference.norm : NAN;
    table.AddRow(
        {Printable(difference.name),
         FormatCount(difference.elements),
         FormatFixed(percent, 1),
         SmallNumber(difference.change_max),
         std::isfinite(relative) ? SmallNumber(relative) : "-"});
  }
  return table.Render(width_max);
}

std::string DifferencesToJson(const std::vector<TensorDifference>& differences) {
  JsonWriter json;
  json.BeginList();
  for (const TensorDifference& difference : differences) {
    json.BeginObject();
    json.Field("tensor", difference.name);
    json.Field("elements", difference.elements);
    json.Field("elements_changed", difference.elements_changed);
    json.Field("change_max", difference.change_max);
    json.Field("change_norm", difference.change_norm);
    json.Field("norm", difference.norm);
    json.EndObject();
  }
  json.EndList();
  return std::move(json).Take();
}

}  // namespace ps::psctl
