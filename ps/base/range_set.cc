#include "ps/base/range_set.h"

#include <fmt/core.h>

#include <algorithm>

#include "ps/base/check.h"

namespace ps {

void RangeSet::Insert(uint64_t begin, uint64_t end) {
  PS_CHECK(begin < end) << fmt::format("[{}, {})", begin, end);
  size_ += end - begin;
  auto next = ranges_.lower_bound(begin);
  PS_CHECK(next == ranges_.end() || next->first >= end)
      << fmt::format("[{}, {}) is there", begin, end);
  if (next != ranges_.begin()) {
    const auto previous = std::prev(next);
    PS_CHECK(previous->second <= begin) << fmt::format("[{}, {}) is there", begin, end);
    if (previous->second == begin) {
      begin = previous->first;
      ranges_.erase(previous);
    }
  }
  if (next != ranges_.end() && next->first == end) {
    end = next->second;
    ranges_.erase(next);
  }
  ranges_[begin] = end;
}

std::pair<uint64_t, uint64_t> RangeSet::TakeLowest(uint64_t count) {
  PS_CHECK(!ranges_.empty() && count > 0);
  const auto [begin, end] = *ranges_.begin();
  const uint64_t taken_end = begin + std::min(count, end - begin);
  ranges_.erase(ranges_.begin());
  if (taken_end < end) {
    ranges_[taken_end] = end;
  }
  size_ -= taken_end - begin;
  return {begin, taken_end};
}

}  // namespace ps
