#include "provisioner/planner/exact/fill_table.h"

#include <algorithm>
#include <numeric>

namespace ps::provisioner {

double FillTable::MostOf(std::span<const Slot> slots, int total) const {
  double sum = 0;
  for (const Slot& slot : slots) {
    sum += slot.low * slot.value;
    total -= slot.low;
  }
  for (size_t i = order_.size(); i-- > 0 && total > 0;) {
    const Slot& slot = slots[order_[i]];
    const int more = std::min(total, slot.high - slot.low);
    sum += more * slot.value;
    total -= more;
  }
  return sum;
}

bool FillTable::Build(
    std::span<const Slot> slots, std::span<const int> pools, int total, double limit) {
  order_.resize(slots.size());
  std::iota(order_.begin(), order_.end(), 0);
  std::sort(order_.begin(), order_.end(), [&](size_t a, size_t b) {
    return slots[a].value < slots[b].value;
  });
  if (MostOf(slots, total) <= limit) {
    return false;
  }
  double low_value = 0;
  for (const Slot& slot : slots) {
    low_value += slot.low * slot.value;
  }
  pieces_.resize((slots.size() + 1) * (slots.size() + 2) / 2);
  begins_.clear();
  size_t end = 0;
  for (size_t depth = 0; depth <= slots.size(); ++depth) {
    begins_.push_back(end);
    int begin = 0;
    double sum = low_value;
    pools_left_.assign(pools.begin(), pools.end());
    for (const size_t i : order_) {
      int span = i < depth ? 0 : slots[i].high - slots[i].low;
      if (span > 0 && slots[i].pool >= 0) {
        int& room = pools_left_[static_cast<size_t>(slots[i].pool)];
        span = std::min(span, room);
        room -= span;
      }
      if (span == 0) {
        continue;
      }
      pieces_[end++] = {begin, sum, slots[i].value};
      begin += span;
      sum += span * slots[i].value;
    }
    if (end == begins_.back()) {
      pieces_[end++] = {0, low_value, 0};
    }
    if (depth < slots.size()) {
      low_value -= slots[depth].low * slots[depth].value;
    }
  }
  begins_.push_back(end);
  return true;
}

const FillTable::Piece* FillTable::Find(size_t depth, int spare) const {
  const Piece* begin = pieces_.data() + begins_[depth];
  const Piece* end = pieces_.data() + begins_[depth + 1];
  return std::upper_bound(
             begin + 1, end, spare, [](int value, const Piece& p) { return value < p.begin; }) -
         1;
}

}  // namespace ps::provisioner
