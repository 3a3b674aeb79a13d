#pragma once

#include <map>
#include <string>
#include <vector>

#include "provisioner/provider/provider.h"
#include "ps/base/time.h"

namespace ps::provisioner {

/// Which pools are left out for a while, since they had no machine. Pure.
class PoolMemory {
 public:
  /// The pool was asked in vain.
  ///  - kNoStock: left out for 30 s, twice as long each time in a row, up to 30 min.
  ///  - kQuota: for 30 min. Asking sooner can't help: a quota changes by people.
  ///  - kRefused: for good.
  /// Other faults say nothing of a pool.
  void NoteFault(const Pool& pool, const CallEnd& end, TimePoint now);

  /// Whether it gave a machine when it was last asked, or was never asked.
  bool HasStock(const Pool& pool) const { return !left_out_.contains(pool); }

  /// It gave a machine.
  void NoteMachine(const Pool& pool) { left_out_.erase(pool); }

  /// Those of `pools` that may be asked, in their order.
  std::vector<Pool> Open(const std::vector<Pool>& pools, TimePoint now) const;
  /// What each of the others answered, and when it is asked again.
  std::string WhyLeftOut(const std::vector<Pool>& pools, TimePoint now) const;

 private:
  struct LeftOut {
    CallEnd end;
    uint32_t times = 0;  // in a row
    TimePoint until{};
  };

  std::map<Pool, LeftOut> left_out_;
};

}  // namespace ps::provisioner
