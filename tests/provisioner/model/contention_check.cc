#include "tests/provisioner/model/contention_check.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <utility>

#include "provisioner/model/least_squares.h"
#include "provisioner/model/queue_model.h"
#include "provisioner/model/spotdnn_model.h"

namespace ps::provisioner {
namespace {

constexpr int kFittedMax = 4;
constexpr int kPredictedMax = 8;
// A deviation of measured speed that counts fully; larger ones count by their size.
constexpr double kScatter = 0.02;
constexpr int kIterationsMax = 80;

using Parameters = std::span<const double>;
/// Steps per second of series number `s` with that many workers.
using Form = std::function<double(Parameters p, size_t s, int workers)>;
/// What pulls coefficients to where they are expected: values that are to be small, each measured
/// in standard deviations.
using Pulls = std::function<std::vector<double>(Parameters p)>;

double Quantile(std::vector<double> values, double fraction) {
  std::ranges::sort(values);
  const double at = fraction * static_cast<double>(values.size() - 1);
  const size_t below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (at - static_cast<double>(below)) * (values[above] - values[below]);
}

ContentionRow Judge(
    const std::string& name,
    const std::vector<ScalingSeries>& series,
    const std::function<double(size_t s, int workers)>& predict) {
  ContentionRow row{.model = name, .errors = {}};
  std::vector<double> all;
  for (size_t s = 0; s < series.size(); ++s) {
    row.errors.emplace_back();
    for (int n = kFittedMax + 1; n <= kPredictedMax; ++n) {
      const double error = predict(s, n) / series[s].steps_per_s.at(n) - 1;
      row.errors.back().push_back(error);
      all.push_back(std::abs(error));
      row.mean += std::abs(error);
    }
  }
  row.mean /= static_cast<double>(all.size());
  row.median = Quantile(all, 0.5);
  row.p90 = Quantile(all, 0.9);
  row.most = Quantile(all, 1);
  return row;
}

/// Fits to the small fleets of all series at once, from each start; the one that fits best.
std::vector<double> Fit(
    const std::vector<ScalingSeries>& series,
    const Form& form,
    const Pulls& pulls,
    const std::vector<std::vector<double>>& starts,
    double scatter = kScatter) {
  size_t fitted = 0;
  for (const ScalingSeries& one : series) {
    fitted += static_cast<size_t>(std::ranges::count_if(
        one.steps_per_s, [](const auto& point) { return point.first <= kFittedMax; }));
  }
  const size_t count = fitted + pulls(starts[0]).size();
  const auto residuals = [&](Parameters p, std::span<double> out) {
    size_t i = 0;
    for (size_t s = 0; s < series.size(); ++s) {
      for (const auto& [workers, measured] : series[s].steps_per_s) {
        if (workers <= kFittedMax) {
          const double error = std::log(form(p, s, workers) / measured);
          out[i++] = SoftResidual(error / scatter, 1);
        }
      }
    }
    std::ranges::copy(pulls(p), out.begin() + static_cast<std::ptrdiff_t>(i));
  };
  LeastSquares best;
  best.cost = INFINITY;
  for (const std::vector<double>& start : starts) {
    LeastSquares found = MinimiseSquares(residuals, count, start, kIterationsMax);
    if (found.cost < best.cost) {
      best = std::move(found);
    }
  }
  return best.parameters;
}

ContentionRow FitAndJudge(
    const std::string& name,
    const std::vector<ScalingSeries>& series,
    const Form& form,
    const Pulls& pulls,
    const std::vector<std::vector<double>>& starts) {
  const std::vector<double> p = Fit(series, form, pulls, starts);
  ContentionRow row =
      Judge(name, series, [&](size_t s, int workers) { return form(p, s, workers); });
  row.coefficients = static_cast<int>(p.size());
  return row;
}

/// Seconds of a worker's step in the smallest fleet.
double StepSeconds(const ScalingSeries& one) {
  const auto& [workers, rate] = *one.steps_per_s.begin();
  return workers / rate;
}

/// Mean value analysis of one station, an arriving worker waiting for `share` of the job in
/// service.
double OneStation(int workers, double think_s, double service_s, double share) {
  double queue = 0;
  double busy = 0;
  double rate = 0;
  for (int n = 1; n <= workers; ++n) {
    const double response_s = service_s * (1 + queue - (1 - share) * busy);
    rate = std::min(n / (think_s + response_s), 1 / service_s);
    queue = rate * response_s;
    busy = rate * service_s;
  }
  return rate;
}

ContentionRow CheckLinear(const std::vector<ScalingSeries>& series) {
  ContentionRow row =
      Judge("linear (CM-DARE: sum of single workers)", series, [&](size_t s, int workers) {
        return workers / StepSeconds(series[s]);
      });
  row.coefficients = static_cast<int>(series.size());
  return row;
}

/// Each series by itself: seconds of thinking and of service.
ContentionRow CheckOneStation(
    const std::string& name, const std::vector<ScalingSeries>& series, double share) {
  std::vector<double> fitted;
  for (const ScalingSeries& one : series) {
    const double step_s = StepSeconds(one);
    const std::vector<ScalingSeries> alone = {one};
    const Form form = [&](Parameters p, size_t /*s*/, int workers) {
      return OneStation(workers, std::exp(p[0]), std::exp(p[1]), share);
    };
    const Pulls none = [](Parameters) { return std::vector<double>(); };
    std::vector<std::vector<double>> starts;
    for (const double service : {0.01, 0.1, 0.3}) {
      starts.push_back({std::log((1 - service) * step_s), std::log(service * step_s)});
    }
    const std::vector<double> best = Fit(alone, form, none, starts);
    fitted.insert(fitted.end(), best.begin(), best.end());
  }
  ContentionRow row = Judge(name, series, [&](size_t s, int workers) {
    return OneStation(workers, std::exp(fitted[2 * s]), std::exp(fitted[2 * s + 1]), share);
  });
  row.coefficients = static_cast<int>(fitted.size());
  return row;
}

/// spotDNN (6) to (9): a1 and b1 for all; by series the step alone, the share of it that is
/// communication, and how many workers the servers' bandwidth is enough for.
ContentionRow CheckSpotDnn(const std::vector<ScalingSeries>& series) {
  std::vector<double> start = {0.3, 0};
  for (const ScalingSeries& one : series) {
    start.insert(start.end(), {std::log(StepSeconds(one)), -1.5, std::log(3.0)});
  }
  const Form form = [](Parameters p, size_t s, int workers) {
    const double step_s = std::exp(p[2 + 3 * s]);
    const double share = 1 / (1 + std::exp(-p[3 + 3 * s]));
    const WorkerClass worker = {
        .name = "w", .compute_s = (1 - share) * step_s, .samples = 1, .link_bytes_per_s = 1};
    const JobTraffic traffic = {.push_bytes = share * step_s};
    const SpotDnnSpeedModel model({worker}, traffic, {.a1 = p[0], .b1 = p[1]}, {});
    const ServerSide servers = {.hosts = 1, .link_bytes_per_s = std::exp(p[4 + 3 * s])};
    return model.Predict(std::vector<int>{workers}, servers).steps_per_s;
  };
  const Pulls pulls = [&](Parameters p) {
    std::vector<double> values;
    for (size_t s = 0; s < series.size(); ++s) {
      values.push_back((p[3 + 3 * s] + 1.5) / 2);
      values.push_back(p[4 + 3 * s] - std::log(3.0));
    }
    return values;
  };
  return FitAndJudge("spotDNN (8, 9), fitted", series, form, pulls, {start});
}

double QueueRate(int workers, double think_s, double service_s, double wait_share) {
  const WorkerClass worker = {.name = "w", .compute_s = think_s, .samples = 1};
  const JobTraffic traffic = {.push_bytes = service_s, .pull_bytes = service_s};
  const QueueSpeedModel model({worker}, traffic, {.wait_share = wait_share});
  return model.Predict(std::vector<int>{workers}, {.hosts = 1, .link_bytes_per_s = 1}).steps_per_s;
}

double Logistic(double x) {
  return 1 / (1 + std::exp(-x));
}

/// Ours, each series by itself but for wait_share.
ContentionRow CheckQueueApart(const std::vector<ScalingSeries>& series) {
  std::vector<double> start = {0};
  for (const ScalingSeries& one : series) {
    start.insert(
        start.end(), {std::log(0.85 * StepSeconds(one)), std::log(0.1 * StepSeconds(one))});
  }
  const Form form = [](Parameters p, size_t s, int workers) {
    return QueueRate(workers, std::exp(p[1 + 2 * s]), std::exp(p[2 + 2 * s]), Logistic(p[0]));
  };
  const Pulls pulls = [&](Parameters p) {
    std::vector<double> values = {p[0] / 2};
    for (size_t s = 0; s < series.size(); ++s) {
      values.push_back(p[2 + 2 * s] - std::log(0.1 * StepSeconds(series[s])));
    }
    return values;
  };
  return FitAndJudge("our queue, each series by itself", series, form, pulls, {start});
}

/// Where each coefficient of the shared fit lies in the parameters.
class SharedLayout {
 public:
  explicit SharedLayout(const std::vector<ScalingSeries>& series) : series_(series) {
    std::set<std::string> models;
    std::set<std::string> devices;
    for (const ScalingSeries& one : series) {
      models.insert(one.model);
      devices.insert(one.source + one.device);
    }
    models_.assign(models.begin(), models.end());
    devices_.assign(devices.begin(), devices.end());
  }

  size_t think(size_t s) const { return kGlobals + s; }

  size_t own(size_t s) const { return kGlobals + series_.size() + s; }

  size_t model(size_t s) const {
    return kGlobals + 2 * series_.size() + IndexOf(models_, series_[s].model);
  }

  size_t device(size_t s) const {
    return kGlobals + 2 * series_.size() + models_.size() +
           IndexOf(devices_, series_[s].source + series_[s].device);
  }

  size_t size() const { return kGlobals + 2 * series_.size() + models_.size() + devices_.size(); }

  /// ResNets and Shake-Shakes lay out their tensors differently.
  size_t busiest_share(size_t s) const { return series_[s].model.starts_with("ResNet") ? 2 : 3; }

  static constexpr size_t kByte = 0;    // ln seconds per MB
  static constexpr size_t kTensor = 1;  // ln seconds per tensor
  static constexpr size_t kWait = 4;    // logit of wait_share
  static constexpr size_t kGlobals = 5;

 private:
  static size_t IndexOf(const std::vector<std::string>& names, const std::string& name) {
    return static_cast<size_t>(std::ranges::find(names, name) - names.begin());
  }

  const std::vector<ScalingSeries>& series_;
  std::vector<std::string> models_;
  std::vector<std::string> devices_;
};

/// How far apart things are taken to be before looking: standard deviations, of logarithms but for
/// the last.
struct Scales {
  double scatter = kScatter;  // of measured speeds
  double series = 0.05;       // of servers' seconds in one series
  double model = 0.1;         // and for one model
  double device = 0.16;       // of the logit of wait_share between kinds of device
};

/// Speeds by series, workers 1 to 8.
using Speeds = std::vector<std::vector<double>>;

/// Ours with what is known: servers spend time per byte and per tensor, the same for every model
/// and device, and with two of them the busier one holds a share of both that the architecture
/// fixes. Single series, models and devices may differ by as much as `scales` says. Leaves what it
/// found as the start of the next fit.
Speeds FitQueueShared(
    const std::vector<ScalingSeries>& series,
    const Scales& scales,
    std::vector<std::vector<double>>* starts) {
  const SharedLayout at(series);
  const Form form = [&](Parameters p, size_t s, int workers) {
    const ScalingSeries& one = series[s];
    const double busiest = one.servers == 1 ? 1 : 0.5 + 0.5 * Logistic(p[at.busiest_share(s)]);
    const double service_s = (std::exp(p[SharedLayout::kByte]) * one.parameter_bytes / 1e6 +
                              std::exp(p[SharedLayout::kTensor]) * one.tensors) *
                             busiest * std::exp(p[at.own(s)] + p[at.model(s)]);
    const double wait_share = Logistic(p[SharedLayout::kWait] + p[at.device(s)]);
    return QueueRate(workers, std::exp(p[at.think(s)]), service_s, wait_share);
  };
  const Pulls pulls = [&](Parameters p) {
    std::vector<double> values = {p[2] / 1.5, p[3] / 1.5};
    for (size_t i = at.own(0); i < at.size(); ++i) {
      const bool is_model = i >= at.own(0) + series.size();
      values.push_back(p[i] / (is_model ? scales.model : scales.series));
    }
    for (size_t s = 0; s < series.size(); ++s) {
      const size_t i = at.device(s);
      values[2 + i - at.own(0)] = p[i] / scales.device;
    }
    return values;
  };
  const std::vector<double> p = Fit(series, form, pulls, *starts, scales.scatter);
  *starts = {p};
  Speeds speeds(series.size());
  for (size_t s = 0; s < series.size(); ++s) {
    for (int workers = 1; workers <= kPredictedMax; ++workers) {
      speeds[s].push_back(form(p, s, workers));
    }
  }
  return speeds;
}

std::vector<std::vector<double>> SharedStarts(const std::vector<ScalingSeries>& series) {
  const SharedLayout at(series);
  std::vector<double> start(at.size());
  for (size_t s = 0; s < series.size(); ++s) {
    start[at.think(s)] = std::log(0.85 * StepSeconds(series[s]));
  }
  std::vector<std::vector<double>> starts;
  for (const double byte : {1.5e-3, 3e-3}) {
    for (const double wait : {0.0, 1.5}) {
      start[SharedLayout::kByte] = std::log(byte);
      start[SharedLayout::kTensor] = std::log(5e-5);
      start[SharedLayout::kWait] = wait;
      starts.push_back(start);
    }
  }
  return starts;
}

/// The geometric mean of fits with different scales: nobody knows them, so none is chosen.
ContentionRow CheckQueueShared(
    const std::string& name,
    const std::vector<ScalingSeries>& series,
    const std::vector<Scales>& fits) {
  Speeds logs(series.size(), std::vector<double>(kPredictedMax));
  std::vector<std::vector<double>> starts = SharedStarts(series);
  for (const Scales& scales : fits) {
    const Speeds speeds = FitQueueShared(series, scales, &starts);
    for (size_t s = 0; s < series.size(); ++s) {
      for (size_t n = 0; n < kPredictedMax; ++n) {
        logs[s][n] += std::log(speeds[s][n]) / static_cast<double>(fits.size());
      }
    }
  }
  ContentionRow row = Judge(name, series, [&](size_t s, int workers) {
    return std::exp(logs[s][static_cast<size_t>(workers) - 1]);
  });
  row.coefficients = static_cast<int>(SharedLayout(series).size());
  return row;
}

/// Each scale once at half and once at twice what it is taken to be; at a third and three times
/// between devices, of which little is known.
std::vector<Scales> ScalesAround(const Scales& middle) {
  std::vector<Scales> all;
  for (const double scatter : {0.5, 2.0}) {
    for (const double own : {0.5, 2.0}) {
      for (const double model : {0.5, 2.0}) {
        for (const double device : {1.0 / 3, 3.0}) {
          all.push_back(
              {middle.scatter * scatter,
               middle.series * own,
               middle.model * model,
               middle.device * device});
        }
      }
    }
  }
  return all;
}

}  // namespace

std::vector<ContentionRow> CheckContention(const std::vector<ScalingSeries>& series) {
  return {
      CheckLinear(series),
      CheckSpotDnn(series),
      CheckOneStation("closed queue, exponential service", series, 1),
      CheckOneStation("closed queue, near-deterministic service", series, 0.5),
      CheckQueueApart(series),
      CheckQueueShared("our queue, servers' times shared", series, {Scales()}),
      CheckQueueShared("the same, mean of 16 fits", series, ScalesAround({}))};
}

}  // namespace ps::provisioner
