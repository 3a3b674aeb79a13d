#pragma once

#include <cstdint>
#include <map>
#include <utility>

namespace ps {

/// Disjoint half-open ranges, neighbours merged: begin -> end.
class RangeSet {
 public:
  /// Requires: begin < end, and nothing of it is in the set.
  void Insert(uint64_t begin, uint64_t end);
  /// Takes at most `count` elements off the lowest range. Requires: not empty, count > 0.
  std::pair<uint64_t, uint64_t> TakeLowest(uint64_t count);

  bool empty() const { return ranges_.empty(); }

  uint64_t size() const { return size_; }

  const std::map<uint64_t, uint64_t>& ranges() const { return ranges_; }

  friend bool operator==(const RangeSet&, const RangeSet&) = default;

 private:
  std::map<uint64_t, uint64_t> ranges_;
  uint64_t size_ = 0;
};

}  // namespace ps
