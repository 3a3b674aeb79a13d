#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "ps/base/ids.h"

namespace ps::coordinator {

/// Finds out whether the data itself can't be trained on. One machine's copy may be damaged, and
/// then other workers get past the place; where most of the fleet has ended at the same one, all
/// will. A coordinator that was restarted counts anew.
class BadDataWatch {
 public:
  static constexpr uint32_t kTimesMin = 3;

  /// The seat's worker could not compute. `what` names file and place; the same for all.
  void Note(WorkerId seat, const std::string& what);

  /// What kTimesMin workers or more, of more than half of so many seats, have told. Empty: nothing.
  std::string FoundByMost(size_t seats) const;

 private:
  struct Place {
    std::string what;
    std::set<WorkerId> seats;
    uint32_t times = 0;
  };

  std::vector<Place> places_;  // the one that was told of last at the end
};

}  // namespace ps::coordinator
