#include "run/machine_load.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "ps/base/file.h"

namespace ps::run {
namespace {

/// user nice system idle iowait irq softirq steal; what follows is counted in these already.
constexpr size_t kFields = 8;
constexpr size_t kIdle = 3;
constexpr size_t kIoWait = 4;

}  // namespace

ProcessorTime ParseProcessorTime(std::string_view stat) {
  if (!stat.starts_with("cpu ")) {
    return {};
  }
  const char* at = stat.data() + 4;
  const char* const end = stat.data() + std::min(stat.size(), stat.find('\n'));
  std::array<uint64_t, kFields> ticks{};
  for (uint64_t& value : ticks) {
    at = std::find_if(at, end, [](char c) { return c != ' '; });
    const auto [next, error] = std::from_chars(at, end, value);
    if (error != std::errc()) {
      return {};
    }
    at = next;
  }
  ProcessorTime time;
  for (size_t i = 0; i < kFields; ++i) {
    time.total += ticks[i];
    time.busy += i == kIdle || i == kIoWait ? 0 : ticks[i];
  }
  return time;
}

ProcessorTime ReadProcessorTime() {
  const Result<std::string> stat = ReadFile("/proc/stat");
  return stat.ok() ? ParseProcessorTime(*stat) : ProcessorTime();
}

double BusyShare(const ProcessorTime& from, const ProcessorTime& to) {
  if (to.total <= from.total || to.busy < from.busy) {
    return 0;
  }
  const double share =
      static_cast<double>(to.busy - from.busy) / static_cast<double>(to.total - from.total);
  return std::min(share, 1.0);
}

}  // namespace ps::run
