// The toy of asynchronous local SGD (google-deepmind/asyncdiloco, AsyncLocalSGDToyExample.ipynb):
// four workers of unequal speed learn which of 4 classes a point is of, each a mixture of 8
// Gaussians. Time is simulated, so speeds of this machine don't matter; workers make their steps
// with worker/local_steps, the server applies them with ps/server/chunks/chunk_store.
//
// The first row is the notebook's naive asynchronous run. Its times are checked to the centisecond,
// its losses are to be compared with what the notebook shows. Others change what we do otherwise.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cpu/backend.h"
#include "kernels/cpu/threads.h"
#include "ps/base/random.h"
#include "ps/base/tensor_spec.h"
#include "ps/proto/chunks.h"
#include "ps/server/chunks/chunk_store.h"
#include "ps/server/lr_schedule.h"
#include "tests/bench/async_toy_data.h"
#include "tests/bench/harness.h"
#include "worker/local_steps.h"
#include "worker/model/model.h"
#include "worker/model/network.h"

namespace ps::bench {
namespace {

constexpr double kSecondsPerStep[] = {0.58, 0.75, 1.51, 3.33};
constexpr size_t kWorkers = std::size(kSecondsPerStep);
constexpr uint32_t kLocalSteps = 20;
constexpr uint32_t kMinibatch = 32;
constexpr double kGraceSeconds = 0.5;

struct Scene {
  uint32_t points = 0;
  uint32_t width = 0;
  uint64_t total_steps = 0;  // of all workers together
  uint64_t evaluate_every = 0;
  uint32_t evaluated = 0;  // points, of those that are trained on
};

/// How workers and server go about it.
struct Way {
  std::string name;
  proto::OuterConfig outer = {};
  proto::Mode mode = proto::Mode::kAsync;
  bool is_by_speed = false;
  /// As the notebook: a shard of the data for each step, a schedule for each shard that the first
  /// minibatch of a step does not follow, moments that begin anew, half a second of grace. Else as
  /// our workers.
  bool is_published = false;
};

std::vector<Way> Ways(bool is_tiny) {
  // The notebook weighs each push by 1 / sqrt(4), and its outer learning rate is 0.07.
  const proto::OuterConfig naive = {.kind = proto::OuterKind::kSgd, .lr = 0.035F, .momentum = 0.9F};
  // The published rate is for the width of 65,000.
  const proto::OuterConfig larger = {.kind = proto::OuterKind::kSgd, .lr = 0.1F, .momentum = 0.9F};
  const proto::OuterConfig heloco = {.kind = proto::OuterKind::kHeloco};
  const Way published = {"naive, as published", naive, proto::Mode::kAsync, false, true};
  const Way ours = {"delayed_nesterov"};
  if (is_tiny) {
    return {
        published,
        ours,
        {"heloco by speed", heloco, proto::Mode::kAsync, true},
        {"nesterov, bsp", {}, proto::Mode::kBsp}};
  }
  return {
      published,
      {"naive, our workers", naive},
      {"naive, our workers, lr 0.1", larger},
      {"naive, our workers by speed", naive, proto::Mode::kAsync, true},
      ours,
      {"delayed_nesterov by speed", {}, proto::Mode::kAsync, true},
      {"heloco", heloco},
      {"heloco by speed", heloco, proto::Mode::kAsync, true},
      {"nesterov, bsp", {}, proto::Mode::kBsp},
      {"nesterov, bsp by speed", {}, proto::Mode::kBsp, true}};
}

// ---- Time.

struct RaceEvents {
  std::function<void(size_t worker, uint32_t steps)> start;
  /// `counted`: local steps that were pushed so far, these included.
  std::function<void(size_t worker, uint64_t counted, double seconds)> push;
};

/// Who starts and who pushes when, until `total_steps` are pushed. Who has pushed starts again when
/// the next one is not done within the grace after the first push; at the time of the last push,
/// as in the notebook. Rounds are a grace without end.
void Race(const Way& way, uint64_t total_steps, const RaceEvents& events) {
  struct Runner {
    uint32_t steps = 0;
    double done_at = 0;
    bool is_busy = false;
  };

  const double grace = way.mode == proto::Mode::kBsp ? std::numeric_limits<double>::infinity()
                       : way.is_published            ? kGraceSeconds
                                                     : 0;
  const double fastest = *std::ranges::min_element(kSecondsPerStep);
  std::vector<Runner> runners(kWorkers);
  for (size_t i = 0; i < kWorkers; ++i) {
    const double share = way.is_by_speed ? fastest / kSecondsPerStep[i] : 1;
    runners[i].steps = std::max(static_cast<uint32_t>(kLocalSteps * share), 1U);
  }
  const auto order = [](const Runner& runner) {
    return runner.is_busy ? runner.done_at : std::numeric_limits<double>::infinity();
  };
  double now = 0;
  uint64_t counted = 0;
  std::optional<double> first_push;
  while (counted < total_steps) {
    const auto next = std::ranges::min_element(runners, {}, order);
    const bool is_pushed = next->is_busy && (!first_push || next->done_at - *first_push <= grace);
    if (is_pushed) {
      now = std::max(now, next->done_at);
      first_push = first_push.value_or(now);
      next->is_busy = false;
      counted += next->steps;
      events.push(static_cast<size_t>(next - runners.begin()), counted, now);
      continue;
    }
    first_push.reset();
    for (size_t i = 0; i < kWorkers; ++i) {
      if (!runners[i].is_busy) {
        runners[i].is_busy = true;
        runners[i].done_at = now + runners[i].steps * kSecondsPerStep[i];
        events.start(i, runners[i].steps);
      }
    }
  }
}

/// The notebook prints these times.
void CheckPublishedTimes() {
  constexpr double kPublished[] = {
      209.0, 406.4, 603.8, 801.4, 999.0, 1207.8, 1404.2, 1600.6, 1800.2, 1998.6};
  std::vector<double> times;
  const auto push = [&times](size_t /*worker*/, uint64_t counted, double seconds) {
    if (counted >= 800 * (times.size() + 1)) {
      times.push_back(seconds);
    }
  };
  Race({.name = {}, .is_published = true}, 8000, {[](size_t, uint32_t) {}, push});
  Require(times.size() == std::size(kPublished), "the notebook looks ten times");
  for (size_t i = 0; i < times.size(); ++i) {
    Require(
        std::fabs(times[i] - kPublished[i]) < 0.005,
        "look " + std::to_string(i + 1) + " is at " + Fixed(times[i], 2) +
            " s, the notebook's at " + Fixed(kPublished[i], 2));
  }
}

// ---- Arithmetic.

/// A value for each parameter.
class Tensors {
 public:
  explicit Tensors(const worker::Model& model) {
    std::vector<int64_t> elements;
    for (const TensorSpec& tensor : model.tensors) {
      elements.push_back(tensor.element_count());
    }
    const proto::TensorLayout layout(elements);
    values_.resize(static_cast<size_t>(layout.element_count()));
    for (size_t i = 0; i < elements.size(); ++i) {
      spans_.push_back(std::span(values_).subspan(
          static_cast<size_t>(layout.OffsetOf(i)), static_cast<size_t>(elements[i])));
      views_.emplace_back(spans_.back());
    }
  }

  Tensors(const Tensors&) = delete;
  Tensors& operator=(const Tensors&) = delete;

  std::span<const std::span<float>> spans() const { return spans_; }

  std::span<const std::span<const float>> views() const { return views_; }

  /// Where a chunk lies.
  std::span<float> PieceOf(const proto::ChunkAssignment& chunk) const {
    return spans_[TensorOf(chunk.key)].subspan(
        static_cast<size_t>(chunk.element_begin), chunk.element_count);
  }

 private:
  std::vector<float> values_;
  std::vector<std::span<float>> spans_;
  std::vector<std::span<const float>> views_;
};

/// PyTorch's: weights and biases of a linear layer are uniform within 1 / sqrt(inputs), and AdamW
/// makes all of them decay.
worker::Model MakeToy(uint32_t width) {
  proto::ModelConfig config;
  config.layers.resize(3);
  config.layers[0].kind = proto::LayerKind::kLinear;
  config.layers[0].out = static_cast<int32_t>(width);
  config.layers[1].kind = proto::LayerKind::kRelu;
  config.layers[2].kind = proto::LayerKind::kLinear;
  config.layers[2].out = kToyClasses;
  worker::Model model =
      worker::MakeModel(config, {kToyDimensions, 1, 1}, int64_t{kToyClasses}).value();
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    const double inputs = i < 2 ? kToyDimensions : width;
    model.tensors[i].init = InitKind::kUniform;
    model.tensors[i].init_scale = static_cast<float>(1 / std::sqrt(inputs));
    model.tensors[i].has_weight_decay = true;
  }
  return model;
}

proto::JobConfig MakeConfig(const Way& way, uint64_t seed) {
  proto::JobConfig config;
  config.optimizer.kind = proto::OptimizerKind::kAdamw;
  config.optimizer.lr = 2e-4F;
  config.optimizer.weight_decay = 0.01F;
  config.optimizer.schedule.kind = proto::ScheduleKind::kCosine;
  config.optimizer.schedule.final_factor = 0.005F;
  config.outer = way.outer;
  config.train.mode = way.mode;
  config.train.minibatch = kMinibatch;
  config.train.local_steps = kLocalSteps;
  config.train.seed = seed;
  config.workers.resize(1);
  config.workers[0].count = kWorkers;
  return config;
}

struct Look {
  double loss = 0;
  double accuracy = 0;
};

/// One run's workers and server.
class Training {
 public:
  Training(const Scene& scene, const Way& way, const ToyPoints& points, uint64_t seed)
      : scene_(scene),
        way_(way),
        points_(points),
        config_(MakeConfig(way, seed)),
        model_(MakeToy(scene.width)),
        network_(worker::Network::Make(model_, {backend_.get()}, seed).value()),
        feed_(scene.points, way.is_published ? kWorkers : 1, seed + 1),
        store_(MakeStore()),
        start_(model_),
        gradients_(model_) {
    schedule_.Begin(server::ShardSettings::Of(config_), scene.total_steps * kMinibatch);
    Random random(seed + 2);
    evaluated_ = Shuffled(scene.points, &random);
    evaluated_.resize(std::min(scene.evaluated, scene.points));
    for (size_t i = 0; i < kWorkers; ++i) {
      workers_.push_back(std::make_unique<Worker>(model_));
    }
  }

  /// A worker takes the parameters of now and makes its steps at once: nothing comes in between.
  void Start(size_t index, uint32_t steps) {
    Worker& worker = *workers_[index];
    if (way_.is_published || worker.local == nullptr) {
      worker.local = std::make_unique<worker::LocalSteps>(config_, model_, backend_);
    }
    Pull();
    worker.samples = steps * kMinibatch;
    Require(worker.local->Begin(start_.views()).ok(), "there is memory");
    const size_t shard = feed_.TakeShard();
    const auto shard_samples =
        static_cast<double>(scene_.total_steps * kMinibatch / feed_.shard_count());
    for (uint32_t step = 0; step < steps; ++step) {
      const double fraction = way_.is_published && step == 0
                                  ? 0
                                  : static_cast<double>(feed_.TakenOf(shard)) / shard_samples;
      Take(kMinibatch, [&] { return feed_.NextOf(shard); });
      const auto loss = network_->TrainStep(
          worker.local->parameters(), BatchOfTaken(), {}, gradients_.spans(), [](uint32_t) {});
      Require(loss.ok(), "a step went well: " + loss.status().ToString());
      Require(
          worker.local->Take(gradients_.spans(), kMinibatch, fraction).ok(),
          "a minibatch was taken");
    }
    Require(worker.local->Finish(worker.delta.spans()).ok(), "there is a delta");
  }

  void Push(size_t index) {
    if (way_.mode == proto::Mode::kBsp) {
      round_.push_back(index);
      if (round_.size() < kWorkers) {
        return;
      }
    } else {
      round_ = {index};
    }
    uint32_t samples = 0;
    for (const size_t worker : round_) {
      samples += workers_[worker]->samples;
    }
    const auto rate =
        way_.mode == proto::Mode::kBsp
            ? static_cast<float>(schedule_.Rate(way_.mode, kWorkers))
            : schedule_.PushRate(way_.mode, kWorkers, {samples, samples / kMinibatch}, 0);
    for (size_t chunk = 0; chunk < chunks_.size(); ++chunk) {
      std::vector<kernels::WeightedPart> parts;
      for (const size_t worker : round_) {
        parts.push_back(
            {workers_[worker]->delta.PieceOf(chunks_[chunk]).data(),
             static_cast<float>(workers_[worker]->samples)});
      }
      const std::vector<std::span<const float>> mean = {
          store_.MeanOf(parts, chunks_[chunk].element_count)};
      Require(store_.ApplyParts(chunk, mean, {rate}), "parameters stayed finite");
      store_.FinishUpdate(chunk);
    }
    schedule_.Count(samples, kWorkers);
    round_.clear();
  }

  Look Evaluate() {
    constexpr size_t kBatch = 256;
    Pull();
    Look look;
    for (size_t begin = 0; begin < evaluated_.size(); begin += kBatch) {
      size_t at = begin;
      const size_t count = std::min(kBatch, evaluated_.size() - begin);
      Take(count, [&] { return evaluated_[at++]; });
      const auto loss = network_->Evaluate(start_.views(), BatchOfTaken());
      Require(loss.ok(), "an evaluation went well: " + loss.status().ToString());
      look.loss += loss->loss_sum / static_cast<double>(evaluated_.size());
      look.accuracy += static_cast<double>(loss->correct) / static_cast<double>(evaluated_.size());
    }
    return look;
  }

 private:
  struct Worker {
    explicit Worker(const worker::Model& model) : delta(model) {}

    std::unique_ptr<worker::LocalSteps> local;
    Tensors delta;  // until it is pushed
    uint32_t samples = 0;
  };

  server::ChunkStore MakeStore() {
    const server::ShardSettings settings = server::ShardSettings::Of(config_);
    proto::ShardSetup setup;
    setup.tensors = model_.tensors;
    setup.placement.chunks =
        proto::CutIntoChunks(model_.tensors, uint64_t{config_.servers.chunk_kib} << 10U);
    for (proto::ChunkAssignment& chunk : setup.placement.chunks) {
      chunk.shard = ShardId(0);
    }
    chunks_ = setup.placement.chunks;
    return server::ChunkStore::Make(ShardId(0), settings, setup).value();
  }

  /// The server's parameters into start_.
  void Pull() {
    for (size_t chunk = 0; chunk < chunks_.size(); ++chunk) {
      std::ranges::copy(store_.ValuesOf(chunk), start_.PieceOf(chunks_[chunk]).begin());
    }
  }

  template <typename Next>
  void Take(size_t count, const Next& next) {
    images_.clear();
    labels_.clear();
    for (size_t i = 0; i < count; ++i) {
      const uint32_t point = next();
      const std::span<const float> values = points_.ValuesOf(point);
      images_.insert(images_.end(), values.begin(), values.end());
      labels_.push_back(points_.LabelOf(point));
    }
  }

  worker::Batch BatchOfTaken() const { return {images_, labels_}; }

  const Scene scene_;
  const Way way_;
  const ToyPoints& points_;
  const proto::JobConfig config_;
  const worker::Model model_;
  const std::shared_ptr<kernels::Backend> backend_ = kernels::MakeCpuBackend();
  const std::unique_ptr<worker::Network> network_;
  ToyFeed feed_;
  std::vector<proto::ChunkAssignment> chunks_;
  server::ChunkStore store_;
  server::LrSchedule schedule_;
  Tensors start_;
  Tensors gradients_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<size_t> round_;  // who has pushed
  std::vector<uint32_t> evaluated_;
  std::vector<float> images_;
  std::vector<uint32_t> labels_;
};

// ---- Runs.

struct Outcome {
  std::vector<Look> looks;  // the first before any step
  double seconds = 0;       // simulated
};

Outcome RunOf(const Scene& scene, const Way& way, const ToyPoints& points, uint64_t seed) {
  Training training(scene, way, points, seed);
  Outcome outcome;
  outcome.looks.push_back(training.Evaluate());
  const auto push = [&](size_t worker, uint64_t counted, double seconds) {
    training.Push(worker);
    outcome.seconds = seconds;
    if (counted >= scene.evaluate_every * outcome.looks.size()) {
      outcome.looks.push_back(training.Evaluate());
      std::fprintf(
          stderr,
          "width %u, seed %llu, %s: step %llu, %.2f s, loss %.4f, accuracy %.3f\n",
          scene.width,
          static_cast<unsigned long long>(seed),
          way.name.c_str(),
          static_cast<unsigned long long>(counted),
          seconds,
          outcome.looks.back().loss,
          outcome.looks.back().accuracy);
    }
  };
  Race(
      way,
      scene.total_steps,
      {[&](size_t worker, uint32_t steps) { training.Start(worker, steps); }, push});
  Require(
      outcome.looks.back().loss < outcome.looks.front().loss,
      way.name + " learnt something: " + Fixed(outcome.looks.front().loss, 4) + " at first, " +
          Fixed(outcome.looks.back().loss, 4) + " at the end");
  return outcome;
}

void PrintScene(const BenchArguments& arguments, const Scene& scene) {
  Table table(
      {"width " + std::to_string(scene.width),
       "loss after 1/5",
       "1/2",
       "7/10",
       "9/10",
       "all steps",
       "of naive",
       "accuracy",
       "simulated s"});
  std::vector<std::pair<Way, std::vector<Outcome>>> rows;
  for (const Way& way : Ways(arguments.is_tiny)) {
    if (arguments.Wants("width " + std::to_string(scene.width) + ", " + way.name)) {
      rows.emplace_back(way, std::vector<Outcome>());
    }
  }
  for (uint64_t seed = 1; seed <= arguments.runs && !rows.empty(); ++seed) {
    const ToyPoints points(scene.points, seed);
    for (auto& [way, outcomes] : rows) {
      outcomes.push_back(RunOf(scene, way, points, seed));
    }
  }
  std::vector<double> naive;
  for (const auto& [way, outcomes] : rows) {
    const auto samples = [&](const std::function<double(const Outcome&)>& value) {
      Samples all;
      std::ranges::transform(outcomes, std::back_inserter(all.values), value);
      return all;
    };
    const auto losses = [&](size_t tenths) {
      return samples([&](const Outcome& o) {
        return o.looks[std::min((o.looks.size() - 1) * tenths / 10, o.looks.size() - 1)].loss;
      });
    };
    const Samples last = losses(10);
    naive = naive.empty() ? last.values : naive;
    Samples difference = last;
    for (size_t i = 0; i < naive.size(); ++i) {
      difference.values[i] = 100 * (last.values[i] / naive[i] - 1);
    }
    table.Add(
        {way.name,
         Spread(losses(2), 4),
         Spread(losses(5), 4),
         Spread(losses(7), 4),
         Spread(losses(9), 4),
         Spread(last, 4),
         Fixed(difference.Median(), 1) + " %",
         Fixed(samples([](const Outcome& o) { return o.looks.back().accuracy; }).Median(), 3),
         Fixed(samples([](const Outcome& o) { return o.seconds; }).Median(), 2)});
  }
  if (!rows.empty()) {
    table.Print();
  }
}

int Run(const BenchArguments& arguments) {
  kernels::SetComputeThreads(1);
  CheckPublishedTimes();
  if (arguments.is_tiny) {
    PrintScene(
        arguments,
        {.points = 1024, .width = 64, .total_steps = 400, .evaluate_every = 40, .evaluated = 512});
    return 0;
  }
  // The notebook's width is the last one; a run takes half an hour of a core.
  for (const uint32_t width : {512U, 2048U, 65000U}) {
    PrintScene(
        arguments,
        {.points = 128'000,
         .width = width,
         .total_steps = 8000,
         .evaluate_every = 800,
         .evaluated = 10'000});
  }
  return 0;
}

}  // namespace
}  // namespace ps::bench

int main(int argc, char** argv) {
  return ps::bench::Run(ps::bench::ReadBenchArguments(argc, argv, {.has_rows = true}));
}
