#include "provisioner/rental/pool_memory.h"

#include <fmt/core.h>

#include <algorithm>

namespace ps::provisioner {
namespace {

constexpr Duration kNoStockMin = std::chrono::seconds(30);
constexpr Duration kLeftOutMax = std::chrono::minutes(30);

}  // namespace

void PoolMemory::NoteFault(const Pool& pool, const CallEnd& end, TimePoint now) {
  if (end.fault != CallFault::kNoStock && end.fault != CallFault::kQuota &&
      end.fault != CallFault::kRefused) {
    return;
  }
  LeftOut& entry = left_out_[pool];
  if (entry.times > 0 && now < entry.until) {
    return;  // an answer to a question from before
  }
  constexpr uint32_t kDoublingsMax = 16;
  entry.end = end;
  const Duration no_stock = kNoStockMin * (int64_t{1} << std::min(entry.times, kDoublingsMax));
  entry.times++;
  switch (end.fault) {
    case CallFault::kNoStock:
      entry.until = now + std::min(no_stock, kLeftOutMax);
      break;
    case CallFault::kQuota:
      entry.until = now + kLeftOutMax;
      break;
    default:
      entry.until = TimePoint::max();
      break;
  }
}

std::vector<Pool> PoolMemory::Open(const std::vector<Pool>& pools, TimePoint now) const {
  std::vector<Pool> open;
  for (const Pool& pool : pools) {
    const auto it = left_out_.find(pool);
    if (it == left_out_.end() || it->second.until <= now) {
      open.push_back(pool);
    }
  }
  return open;
}

std::string PoolMemory::WhyLeftOut(const std::vector<Pool>& pools, TimePoint now) const {
  std::string text;
  for (const Pool& pool : pools) {
    const auto it = left_out_.find(pool);
    if (it == left_out_.end() || it->second.until <= now) {
      continue;
    }
    const LeftOut& entry = it->second;
    text += fmt::format(
        "{}{}: {} ({})",
        text.empty() ? "" : "; ",
        PoolText(pool),
        entry.end.message.empty() ? CallFaultName(entry.end.fault) : entry.end.message,
        entry.until == TimePoint::max()
            ? "not asked again"
            : fmt::format("asked again in {:.0f} s", Seconds(entry.until - now)));
  }
  return text;
}

}  // namespace ps::provisioner
