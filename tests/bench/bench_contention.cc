// How well contention models extrapolate published measurements from at most 4 workers to 5 to 8.
// Needs no quiet machine: it measures errors, not time. Run it in the root of the source tree.

#include <cstdio>

#include "tests/bench/harness.h"
#include "tests/provisioner/model/contention_check.h"

int main(int argc, char** argv) {
  using ps::bench::Fixed;
  ps::bench::ReadBenchArguments(argc, argv);
  const auto series = ps::provisioner::LoadScalingSeries("tests/data/ps_scaling");
  if (!series.ok()) {
    std::fprintf(stderr, "%s\n", series.status().ToString().c_str());
    return 1;
  }
  const auto rows = ps::provisioner::CheckContention(*series);
  ps::bench::Table summary({"model", "coefficients", "mean %", "median %", "p90 %", "most %"});
  for (const auto& row : rows) {
    summary.Add(
        {row.model,
         std::to_string(row.coefficients),
         Fixed(100 * row.mean, 1),
         Fixed(100 * row.median, 1),
         Fixed(100 * row.p90, 1),
         Fixed(100 * row.most, 1)});
  }
  summary.Print();
  for (const auto& row : rows) {
    std::printf("\n%s: predicted over measured, %%\n", row.model.c_str());
    ps::bench::Table table({"series", "5", "6", "7", "8"});
    for (size_t s = 0; s < series->size(); ++s) {
      std::vector<std::string> cells = {(*series)[s].Name()};
      for (const double error : row.errors[s]) {
        cells.push_back(Fixed(100 * error, 1));
      }
      table.Add(cells);
    }
    table.Print();
  }
  return 0;
}
