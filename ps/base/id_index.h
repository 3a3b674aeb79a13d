#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "ps/base/check.h"
#include "ps/base/random.h"

namespace ps {

/// Finds what belongs to an id in one or two lines of memory, however many there are, where a
/// std::map reads a dozen. It stands beside a map that keeps the values and gives them an order;
/// the index has none and is never walked. Ids are those that this process hands out, and not 0.
template <typename Id, typename T>
class IdIndex {
 public:
  IdIndex() = default;
  IdIndex(const IdIndex&) = delete;  // it would find the values of the other one
  IdIndex& operator=(const IdIndex&) = delete;
  IdIndex(IdIndex&&) = default;
  IdIndex& operator=(IdIndex&&) = default;
  ~IdIndex() = default;

  /// Null when it is not there.
  T* Find(Id id) const {
    size_t at = HomeOf(id.value);
    while (slots_[at].id != id.value && slots_[at].id != 0) {
      at = NextTo(at);
    }
    return slots_[at].value;
  }

  /// Requires: it is not there. `value` outlives its entry.
  void Insert(Id id, T* value) {
    PS_CHECK(id.value != 0 && value != nullptr && Find(id) == nullptr) << "id " << id;
    if (2 * (size_ + 1) > slots_.size()) {
      Grow();
    }
    Put({id.value, value});
    ++size_;
  }

  /// Does nothing when it is not there.
  void Erase(Id id) {
    if (Find(id) == nullptr) {
      return;
    }
    size_t at = HomeOf(id.value);
    while (slots_[at].id != id.value) {
      at = NextTo(at);
    }
    slots_[at] = {};
    --size_;
    // Those behind it, up to the next gap, may have been kept from their place by it.
    for (at = NextTo(at); slots_[at].id != 0; at = NextTo(at)) {
      Put(std::exchange(slots_[at], {}));
    }
  }

  size_t size() const { return size_; }

 private:
  struct Slot {
    uint64_t id = 0;  // 0: empty
    T* value = nullptr;
  };

  size_t HomeOf(uint64_t id) const { return Mix64(id) & (slots_.size() - 1); }

  size_t NextTo(size_t at) const { return (at + 1) & (slots_.size() - 1); }

  void Put(Slot slot) {
    size_t at = HomeOf(slot.id);
    while (slots_[at].id != 0) {
      at = NextTo(at);
    }
    slots_[at] = slot;
  }

  void Grow() {
    const std::vector<Slot> before = std::exchange(slots_, std::vector<Slot>(2 * slots_.size()));
    for (const Slot& slot : before) {
      if (slot.id != 0) {
        Put(slot);
      }
    }
  }

  size_t size_ = 0;
  std::vector<Slot> slots_ = std::vector<Slot>(16);  // a power of two, at most half of them used
};

}  // namespace ps
