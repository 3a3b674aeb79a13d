#include "run/report/exchange.h"

#include "ps/base/text.h"

namespace ps::run {

void ExchangeTotals::Add(const proto::WorkerStats& stats) {
  bytes_pushed += stats.bytes_pushed;
  bytes_pulled += stats.bytes_pulled;
  samples += stats.samples;
  compute_s += stats.compute_s;
  wait_s += stats.wait_s;
}

double ExchangeTotals::computing() const {
  return compute_s > 0 ? compute_s / (compute_s + wait_s) : 0;
}

double ExchangeTotals::PerSample(uint64_t bytes) const {
  return samples == 0 ? 0 : static_cast<double>(bytes) / static_cast<double>(samples);
}

ExchangeTotals ExchangeOf(const proto::JobStatus& status) {
  ExchangeTotals totals;
  for (const proto::WorkerRow& row : status.workers) {
    totals.Add(row.stats);
  }
  return totals;
}

std::string ExchangeText(const ExchangeTotals& totals) {
  std::string text =
      FormatBytes(totals.bytes_pushed) + " pushed, " + FormatBytes(totals.bytes_pulled) + " pulled";
  if (totals.samples > 0) {
    const auto pushed = static_cast<uint64_t>(totals.PerSample(totals.bytes_pushed));
    const auto pulled = static_cast<uint64_t>(totals.PerSample(totals.bytes_pulled));
    text += "; a sample " + FormatBytes(pushed) + " and " + FormatBytes(pulled);
  }
  return text;
}

}  // namespace ps::run
