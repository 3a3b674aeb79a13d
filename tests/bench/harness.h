#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace ps::bench {

/// How a benchmark was called.
struct BenchArguments {
  /// Smallest sizes and one run: the test suite runs every benchmark like this, so that none rots.
  bool is_tiny = false;
  uint32_t runs = 7;           // measured runs, after the warm-up
  std::string only;            // rows whose name contains it; empty: all
  uint32_t shards = 1;         // on this host
  std::string device = "cpu";  // as a job says it
  std::string plot;            // file for an SVG; empty: none
  std::string job;             // file of a job; empty: the benchmark's own

  bool Wants(const std::string& row) const { return row.find(only) != std::string::npos; }
};

/// Arguments that not every benchmark has.
struct BenchExtras {
  bool has_rows = false;    // --only TEXT
  bool has_shards = false;  // --shards N
  bool has_device = false;  // --device TEXT
  bool has_plot = false;    // --plot FILE
  bool has_job = false;     // --job FILE
};

/// Reads --tiny, --runs N and the extras; ends the program with exit code 2 on anything else. Then
/// prints the machine's name, for the record of what is measured.
BenchArguments ReadBenchArguments(int argc, char** argv, BenchExtras extras = {});

/// What repeated runs of one thing gave.
struct Samples {
  std::vector<double> values;  // in the order measured

  double Median() const;
  /// Median absolute deviation from the median.
  double Deviation() const;
  double Least() const;
  double Most() const;
  /// The value that `fraction` of the samples do not exceed.
  double Quantile(double fraction) const;
};

/// Warms everything up, then runs `runs` rounds in which each candidate runs once, in turn, so that
/// a disturbance of the machine hits all alike. Each candidate returns its own figure.
std::vector<Samples> MeasureInTurn(
    uint32_t runs, const std::vector<std::function<double()>>& candidates, uint32_t warm_ups = 1);

/// `a` in percent of `b`, run by run. Requires: both from one MeasureInTurn.
Samples PercentOf(const Samples& a, const Samples& b);

/// Two sides of a conversation, each with a core of its own, as if on two machines.
enum class Side { kNear, kFar };

/// Binds the calling thread, and threads that it starts, to the side's core. Left alone, a
/// scheduler now and then puts both sides on one core for a while. Does nothing where there is
/// only one. Requires: the first call is for kNear, before there are threads for kFar.
void TakeCoreOf(Side side);

/// Lets the calling thread, and threads that it starts, use every core again.
void TakeAnyCore();

/// Seconds since an arbitrary point.
double WallSeconds();
/// CPU seconds, user and system, of this process and of the children it has waited for.
double CpuSeconds();

/// An aligned table on stdout: the first column left, the others right.
class Table {
 public:
  explicit Table(std::vector<std::string> header) { rows_.push_back(std::move(header)); }

  void Add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }

  void Print() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

/// "3.14" with the given number of decimals.
std::string Fixed(double value, int decimals);
/// "median (deviation)".
std::string Spread(const Samples& samples, int decimals);

/// A table with a row for each figure: median, deviation, least and most of its samples.
class SampleTable {
 public:
  void Add(const std::string& what, const Samples& samples, const std::string& unit);

  void Print() const { table_.Print(); }

 private:
  Table table_{{"what", "median", "MAD", "least", "most", "unit"}};
};

/// Ends the benchmark and says why when what it measures did not happen.
void Require(bool holds, const std::string& what);

}  // namespace ps::bench
