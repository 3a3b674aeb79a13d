// What local steps and smaller encodings make of thin links: a small gpt on four unequal workers,
// real processes of this build, each worker with a link of a few Mbit/s; what a profile of one link
// says of others; and what they cost: the loss after equal samples, without limits of links.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ps/base/file.h"
#include "psctl/view/line_plot.h"
#include "tests/base/temporary_folder.h"
#include "tests/bench/harness.h"
#include "tests/e2e/support/train_run.h"

namespace ps::bench {
namespace {

namespace fs = std::filesystem;
using e2e::Job;
using e2e::Json;
using e2e::TrainRun;

struct Sizes {
  double rate_s = 0;          // of training, of a run that is timed
  uint64_t loss_samples = 0;  // an epoch of a run whose loss counts
  uint32_t loss_epochs = 0;
  uint32_t width = 0;  // of the gpt
  double step_ms = 0;  // of the fastest worker, for a minibatch
};

/// What values travel as.
struct Encodings {
  std::string push = "f32";
  std::string pull = "f32";

  std::string ToText() const { return R"({"push": ")" + push + R"(", "pull": ")" + pull + R"("})"; }
};

/// How workers and servers exchange.
struct Way {
  std::string name;
  uint32_t local_steps = 1;
  bool is_by_speed = false;
  std::string mode = "async";
  Encodings exchange = {};
  std::string label = {};  // in the plot, a few letters; empty: it is left out
};

std::vector<Way> Ways(bool is_tiny) {
  const Encodings int8 = {"int8", "bf16"};
  const Encodings int4 = {"int4", "bf16"};
  const Encodings both = {"int8", "int8"};
  const Encodings fewest = {"int4", "int8"};
  if (is_tiny) {
    return {
        {"each minibatch"},
        {"each minibatch, int8 both ways", 1, false, "async", both},
        {"4 local steps by speed, int4", 4, true, "async", int4}};
  }
  return {
      {"each minibatch", 1, false, "async", {}, "f32"},
      {"each minibatch, int8", 1, false, "async", int8, "int8"},
      {"each minibatch, int8 both ways", 1, false, "async", both},
      {"8 local steps", 8, false, "async", {}, "8"},
      {"50 local steps", 50},
      {"50 local steps, int8", 50, false, "async", int8},
      {"50 local steps, int8 both ways", 50, false, "async", both},
      {"50 local steps by speed, int4", 50, true, "async", int4, "50, int4"},
      {"50 local steps by speed, int4 up, int8 down", 50, true, "async", fewest},
      {"each minibatch, bsp", 1, false, "bsp"},
      {"50 local steps, bsp", 50, false, "bsp"},
      {"50 local steps by speed, int4, bsp", 50, true, "bsp", int4},
  };
}

/// Bytes of this repository's documents as text.
void WriteText(const std::string& folder) {
  uint64_t count = 0;
  for (const auto& entry : fs::recursive_directory_iterator("docs")) {
    if (entry.path().extension() == ".md") {
      const std::string name = entry.path().filename().string();
      fs::copy_file(entry.path(), folder + "/" + std::to_string(count++) + name + ".txt");
    }
  }
  Require(count > 0, "documents were found; run it in the repository's folder");
}

Job MakeJob(
    const std::string& folder, const Sizes& sizes, const Way& way, uint64_t seed, uint32_t epochs) {
  Job job(folder);
  WriteText(folder);
  std::string train = R"({"epochs": )" + std::to_string(epochs) + R"(, "minibatch": 8, "mode": ")" +
                      way.mode + R"(", "seed": )" + std::to_string(seed) + R"(, "local_steps": )" +
                      std::to_string(way.local_steps);
  train += way.is_by_speed ? R"(, "local_steps_by_speed": true})" : "}";
  job.Set(
         "model",
         R"({"name": "gpt", "depth": 4, "heads": 4, "width": )" + std::to_string(sizes.width) + "}")
      .Set("optimizer", R"({"kind": "adamw", "lr": 0.001, "beta2": 0.95, "weight_decay": 0.1})")
      .Set("train", train)
      .Set("exchange", way.exchange.ToText())
      .Set("servers", R"({"count": 1})");
  return job;
}

std::string DataIn(const std::string& folder, uint64_t samples) {
  return R"({"format": "text", "directory": ")" + folder +
         R"(", "context": 64, "train_samples": )" + std::to_string(samples) +
         R"(, "test_samples": 200})";
}

constexpr double kSlowness[] = {1.0, 1.3, 2.6, 5.7};

/// Four workers, each behind a link; 0: behind none. Each is a type of its own, "w0" to "w3".
std::string Workers(double step_ms, double link_mbit_per_s) {
  std::string workers;
  for (size_t i = 0; i < std::size(kSlowness); ++i) {
    workers += (workers.empty() ? "[" : ", ") + std::string(R"({"count": 1, "type": "w)") +
               std::to_string(i) + R"(", "step_ms": )" + Fixed(step_ms * kSlowness[i], 0) +
               R"(, "link_mbit_per_s": )" + Fixed(link_mbit_per_s, 1) + "}";
  }
  return workers + "]";
}

/// These types, and "ps" for a server without limits.
std::string Catalog(double link_mbit_per_s) {
  const auto type = [](const std::string& name, double mbit_per_s, bool is_server) {
    return R"({"name": ")" + name + R"(", "device": "cpu", "vcpus": 1, "memory_gib": 4, )" +
           R"("network_gbit_per_s": )" + Fixed(mbit_per_s / 1000, 6) +
           R"(, "on_demand_usd_per_hour": 1, "quota": 1, "is_server_host": )" +
           (is_server ? "true" : "false") + "}";
  };
  std::string types = type("ps", 10000, true);
  for (size_t i = 0; i < std::size(kSlowness); ++i) {
    types += ", " + type("w" + std::to_string(i), link_mbit_per_s, false);
  }
  return R"({"provider": "nobody", "region": "here", "as_of": "2026-11-28", "source": "made up", )"
         R"("types": [)" +
         types + "]}";
}

/// What a run came to, how its loss fell (seconds, nats), and the profile that it left.
struct Timed {
  Json summary;
  std::vector<std::pair<double, double>> losses = {};
  std::string profile = {};
};

Timed TimedRunOf(const Job& job) {
  TrainRun run(job);
  const e2e::ProcessEnd end = run.WaitForEnd(std::chrono::hours(2));
  Require(end == e2e::ProcessEnd{}, "the run went well:\n" + run.psctl().Err());
  Timed timed{run.Summary()};
  Result<std::string> profile = ReadFile(run.Root() + "/profile.json");
  Require(profile.ok(), "the run left a profile");
  timed.profile = std::move(profile).value();
  std::ifstream metrics(run.Root() + "/metrics.jsonl");
  for (std::string line; std::getline(metrics, line);) {
    const std::optional<Json> row = Json::Parse(line);
    if (row && (*row)["train_loss"].kind() == Json::Kind::kNumber) {
      timed.losses.emplace_back((*row)["elapsed_s"].number(), (*row)["train_loss"].number());
    }
  }
  return timed;
}

/// A run of `rate_s` seconds behind links.
Timed RateOf(const Sizes& sizes, const Way& way, double link_mbit_per_s) {
  const TemporaryFolder folder;
  Job job = MakeJob(folder.path(), sizes, way, 1, 1000);
  job.Set("data", DataIn(folder.path(), 0))
      .Set("workers", Workers(sizes.step_ms, link_mbit_per_s))
      .Set("checkpoint", R"({"enabled": false})")
      .Set(
          "run",
          R"({"directory": ")" + job.runs() + R"(", "seconds_max": )" + Fixed(sizes.rate_s, 0) +
              "}");
  return TimedRunOf(job);
}

/// Loss on the test samples at the end, without limits.
double LossOf(const Sizes& sizes, const Way& way, uint64_t seed) {
  const TemporaryFolder folder;
  Job job = MakeJob(folder.path(), sizes, way, seed, sizes.loss_epochs);
  job.Set("data", DataIn(folder.path(), sizes.loss_samples))
      .Set("workers", Workers(0, 0))
      .Set("checkpoint", R"({"enabled": false})");
  return TimedRunOf(job).summary["test_loss"].number();
}

std::string Percent(double share) {
  return Fixed(100 * share, 0) + " %";
}

/// Losses over time, of the ways that have a label.
void Plot(
    const std::string& path,
    double link,
    double seconds,
    const std::vector<std::pair<std::string, Timed>>& runs) {
  psctl::PlotPanel panel;
  panel.title = "training loss, nats";
  char style = 'a';
  for (const auto& [name, timed] : runs) {
    if (!name.empty()) {
      panel.lines.push_back({style, timed.losses});
      panel.legend.emplace_back(style++, name);
    }
  }
  std::ofstream(path) << psctl::DrawPlot(
      "A gpt on four unequal workers behind links of " + Fixed(link, 0) + " Mbit/s",
      {panel},
      {seconds, seconds});
}

void PrintRates(const BenchArguments& arguments, const Sizes& sizes, double link) {
  Table table(
      {"behind " + Fixed(link, 0) + " Mbit/s",
       "samples/s",
       "times",
       "computing",
       "pushed B/sample",
       "pulled B/sample",
       "bytes, 1/n"});
  double first_rate = 0;
  double first_bytes = 0;
  std::vector<std::pair<std::string, Timed>> runs;
  for (const Way& way : Ways(arguments.is_tiny)) {
    if (!arguments.Wants("rate " + Fixed(link, 0) + ", " + way.name)) {
      continue;
    }
    Timed timed = RateOf(sizes, way, link);
    const double rate = timed.summary["samples_per_s"].number();
    const double pushed = timed.summary["bytes_pushed_per_sample"].number();
    const double pulled = timed.summary["bytes_pulled_per_sample"].number();
    first_rate = first_rate == 0 ? rate : first_rate;
    first_bytes = first_bytes == 0 ? pushed + pulled : first_bytes;
    table.Add(
        {way.name,
         Fixed(rate, 1),
         Fixed(first_rate == 0 ? 0 : rate / first_rate, 2),
         Percent(timed.summary["computing"].number()),
         Fixed(pushed, 0),
         Fixed(pulled, 0),
         Fixed(pushed + pulled == 0 ? 0 : first_bytes / (pushed + pulled), 1)});
    runs.emplace_back(way.label, std::move(timed));
  }
  if (!runs.empty()) {
    table.Print();
  }
  if (!runs.empty() && !arguments.plot.empty()) {
    Plot(arguments.plot, link, sizes.rate_s, runs);
  }
}

/// What a profile says of other ways and links: samples/s, and the share of time computing.
struct Prediction {
  double rate = 0;
  double computing = 0;
};

Prediction Predict(const std::string& profile, const Way& way, double link_mbit_per_s) {
  const TemporaryFolder folder;
  const std::string profile_path = folder.path() + "/profile.json";
  const std::string catalog_path = folder.path() + "/catalog.json";
  Require(
      WriteFileAtomically(profile_path, profile).ok() &&
          WriteFileAtomically(catalog_path, Catalog(link_mbit_per_s)).ok(),
      "files were written");
  e2e::Process::Options predict;
  predict.program = "psctl";
  predict.arguments = {
      "predict",
      "--json",
      "--market",
      "on-demand",
      "--profile",
      profile_path,
      "--catalog",
      catalog_path,
      "--ps",
      "ps=1",
      "--local-steps",
      std::to_string(way.local_steps),
      "--push",
      way.exchange.push,
      "--pull",
      way.exchange.pull,
      "--fleet"};
  std::string fleet;
  for (size_t i = 0; i < std::size(kSlowness); ++i) {
    fleet += (fleet.empty() ? "w" : ",w") + std::to_string(i) + "=1";
  }
  predict.arguments.push_back(fleet);
  predict.output_stem = folder.path() + "/predict";
  const e2e::Output output = RunToEnd(predict, e2e::kRunPatience);
  Require(output.end == e2e::ProcessEnd{}, "psctl predict answered:\n" + output.err);
  const std::optional<Json> plan = Json::Parse(output.out);
  Require(plan.has_value(), "psctl predict wrote JSON");
  return {(*plan)["samples_per_s"]["value"].number(), (*plan)["computing"].number()};
}

/// Measured with one way behind one link, predicted for others behind others.
void PrintPredictions(const BenchArguments& arguments, const Sizes& sizes) {
  if (arguments.is_tiny || !arguments.Wants("predict")) {
    return;  // runs of a second leave no profile
  }
  const Encodings int8 = {"int8", "bf16"};
  const std::vector<Way> ways = {
      {"each minibatch"}, {"4 local steps", 4}, {"16 local steps, int8", 16, false, "async", int8}};
  const std::string profile = RateOf(sizes, ways.front(), 20).profile;
  Table table(
      {"profiled behind 20 Mbit/s",
       "samples/s",
       "predicted",
       "off",
       "computing",
       "predicted",
       "points"});
  for (const double link : {50.0, 10.0, 5.0}) {
    for (const Way& way : ways) {
      const Json summary = RateOf(sizes, way, link).summary;
      const Prediction predicted = Predict(profile, way, link);
      const double rate = summary["samples_per_s"].number();
      const double computing = summary["computing"].number();
      table.Add(
          {Fixed(link, 0) + " Mbit/s, " + way.name,
           Fixed(rate, 1),
           Fixed(predicted.rate, 1),
           Fixed(rate == 0 ? 0 : 100 * (predicted.rate / rate - 1), 1) + " %",
           Percent(computing),
           Percent(predicted.computing),
           Fixed(100 * (predicted.computing - computing), 1)});
    }
  }
  table.Print();
}

void PrintLosses(const BenchArguments& arguments, const Sizes& sizes) {
  SampleTable table;
  for (const Way& way : Ways(arguments.is_tiny)) {
    if (!arguments.Wants("loss, " + way.name)) {
      continue;
    }
    Samples losses;
    for (uint64_t seed = 1; seed <= arguments.runs; ++seed) {
      losses.values.push_back(LossOf(sizes, way, seed));
    }
    table.Add("loss, " + way.name, losses, "nats");
  }
  table.Print();
}

int Run(const BenchArguments& arguments) {
  const Sizes sizes = arguments.is_tiny ? Sizes{1, 200, 1, 32, 20} : Sizes{60, 4500, 2, 128, 300};
  PrintRates(arguments, sizes, 20);
  if (!arguments.is_tiny) {
    PrintRates(arguments, sizes, 5);
  }
  PrintPredictions(arguments, sizes);
  PrintLosses(arguments, sizes);
  return testing::Test::HasFailure() ? 1 : 0;
}

}  // namespace
}  // namespace ps::bench

int main(int argc, char** argv) {
  testing::InitGoogleTest();
  return ps::bench::Run(
      ps::bench::ReadBenchArguments(argc, argv, {.has_rows = true, .has_plot = true}));
}
