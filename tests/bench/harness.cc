#include "tests/bench/harness.h"

#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string_view>

#include "ps/base/check.h"
#include "ps/base/time.h"

namespace ps::bench {
namespace {

double QuantileOf(std::vector<double> values, double fraction) {
  if (values.empty()) {
    return std::nan("");
  }
  std::sort(values.begin(), values.end());
  const double position = fraction * static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(position);
  const size_t above = std::min(below + 1, values.size() - 1);
  const double weight = position - static_cast<double>(below);
  return values[below] * (1 - weight) + values[above] * weight;
}

double SecondsOf(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

double CpuOf(int who) {
  rusage usage{};
  getrusage(who, &usage);
  return SecondsOf(usage.ru_utime) + SecondsOf(usage.ru_stime);
}

std::vector<int> FindAllowedCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(core, &set)) {
        cores.push_back(core);
      }
    }
  }
  return cores;
}

/// The cores of this process before any thread was bound to one.
const std::vector<int>& AllowedCores() {
  static const std::vector<int> cores = FindAllowedCores();
  return cores;
}

void BindTo(const std::vector<int>& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) {
    CPU_SET(core, &set);
  }
  PS_CHECK(sched_setaffinity(0, sizeof(set), &set) == 0) << "no core for a side";
}

/// A number from 1 behind `flag` at argument `i`, which moves on to the number.
bool TakeCount(std::string_view flag, int argc, char** argv, int* i, uint32_t* count) {
  if (argv[*i] != flag || *i + 1 >= argc || std::atoi(argv[*i + 1]) <= 0) {
    return false;
  }
  *count = static_cast<uint32_t>(std::atoi(argv[++*i]));
  return true;
}

/// "2 cores, AMD EPYC 9B45, AVX-512": every figure belongs to a CPU.
std::string MachineName() {
  std::ifstream lines("/proc/cpuinfo");
  std::string line;
  std::string model = "unknown CPU";
  bool has_avx512 = false;
  int cores = 0;
  while (std::getline(lines, line)) {
    const size_t value = std::min(line.find(':') + 2, line.size());
    if (line.starts_with("processor")) {
      ++cores;
    } else if (line.starts_with("model name")) {
      model = line.substr(value);
    } else if (line.starts_with("flags")) {
      has_avx512 = line.find(" avx512f") != std::string::npos;
    }
  }
  return std::to_string(cores) + (cores == 1 ? " core, " : " cores, ") + model +
         (has_avx512 ? ", AVX-512" : ", no AVX-512");
}

}  // namespace

BenchArguments ReadBenchArguments(int argc, char** argv, BenchExtras extras) {
  BenchArguments arguments;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--tiny") == 0) {
      arguments.is_tiny = true;
      arguments.runs = 1;
    } else if (extras.has_rows && std::strcmp(argv[i], "--only") == 0 && i + 1 < argc) {
      arguments.only = argv[++i];
    } else if (extras.has_device && std::strcmp(argv[i], "--device") == 0 && i + 1 < argc) {
      arguments.device = argv[++i];
    } else if (extras.has_plot && std::strcmp(argv[i], "--plot") == 0 && i + 1 < argc) {
      arguments.plot = argv[++i];
    } else if (extras.has_job && std::strcmp(argv[i], "--job") == 0 && i + 1 < argc) {
      arguments.job = argv[++i];
    } else if (
        !TakeCount("--runs", argc, argv, &i, &arguments.runs) &&
        (!extras.has_shards || !TakeCount("--shards", argc, argv, &i, &arguments.shards))) {
      std::fprintf(
          stderr,
          "%s: unknown '%s'; allowed: --tiny, --runs N%s%s%s%s%s\n",
          argv[0],
          argv[i],
          extras.has_rows ? ", --only TEXT (rows whose name contains it)" : "",
          extras.has_shards ? ", --shards N" : "",
          extras.has_device ? ", --device cpu, cuda or cuda:N" : "",
          extras.has_plot ? ", --plot FILE" : "",
          extras.has_job ? ", --job FILE" : "");
      std::exit(2);
    }
  }
  std::printf("machine: %s\n", MachineName().c_str());
  return arguments;
}

double Samples::Median() const {
  return QuantileOf(values, 0.5);
}

double Samples::Deviation() const {
  std::vector<double> deviations;
  for (const double value : values) {
    deviations.push_back(std::abs(value - Median()));
  }
  return QuantileOf(deviations, 0.5);
}

double Samples::Least() const {
  return QuantileOf(values, 0);
}

double Samples::Most() const {
  return QuantileOf(values, 1);
}

double Samples::Quantile(double fraction) const {
  return QuantileOf(values, fraction);
}

std::vector<Samples> MeasureInTurn(
    uint32_t runs, const std::vector<std::function<double()>>& candidates, uint32_t warm_ups) {
  std::vector<Samples> results(candidates.size());
  for (uint32_t warm_up = 0; warm_up < warm_ups; ++warm_up) {
    for (const auto& candidate : candidates) {
      candidate();
    }
  }
  for (uint32_t run = 0; run < runs; ++run) {
    for (size_t i = 0; i < candidates.size(); ++i) {
      results[i].values.push_back(candidates[i]());
    }
  }
  return results;
}

Samples PercentOf(const Samples& a, const Samples& b) {
  PS_CHECK(a.values.size() == b.values.size()) << a.values.size() << " and " << b.values.size();
  Samples percent;
  for (size_t i = 0; i < a.values.size(); ++i) {
    percent.values.push_back(a.values[i] / b.values[i] * 100);
  }
  return percent;
}

void TakeCoreOf(Side side) {
  const std::vector<int>& cores = AllowedCores();
  if (cores.size() > 1) {
    BindTo({side == Side::kNear ? cores[0] : cores[1]});
  }
}

void TakeAnyCore() {
  if (AllowedCores().size() > 1) {
    BindTo(AllowedCores());
  }
}

double WallSeconds() {
  return Seconds(SystemTime().Now().time_since_epoch());
}

double CpuSeconds() {
  return CpuOf(RUSAGE_SELF) + CpuOf(RUSAGE_CHILDREN);
}

void Table::Print() const {
  std::vector<size_t> widths;
  for (const auto& row : rows_) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  for (const auto& row : rows_) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - row[i].size(), ' ');
      line += i == 0 ? row[i] + padding : "  " + padding + row[i];
    }
    std::printf("%s\n", line.c_str());
  }
  std::fflush(stdout);
}

std::string Fixed(double value, int decimals) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.*f", decimals, value);
  return text;
}

std::string Spread(const Samples& samples, int decimals) {
  return Fixed(samples.Median(), decimals) + " (" + Fixed(samples.Deviation(), decimals) + ")";
}

void SampleTable::Add(const std::string& what, const Samples& samples, const std::string& unit) {
  table_.Add(
      {what,
       Fixed(samples.Median(), 2),
       Fixed(samples.Deviation(), 2),
       Fixed(samples.Least(), 2),
       Fixed(samples.Most(), 2),
       unit});
}

void Require(bool holds, const std::string& what) {
  if (!holds) {
    std::fprintf(stderr, "the benchmark ends: %s\n", what.c_str());
    std::exit(1);
  }
}

}  // namespace ps::bench
