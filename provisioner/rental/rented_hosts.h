#pragma once

#include <set>
#include <vector>

#include "provisioner/rental/rental_book.h"
#include "ps/proto/job/job_config.h"

namespace ps::provisioner {

/// Machines that are asked for and come later, as a fleet sees them: RentalDesk, or that of a test.
/// RentalBook says what each call means. Thread: one.
class RentedHosts {
 public:
  virtual ~RentedHosts() = default;
  /// The machine may be of any type and zone that the group allows.
  virtual void Ask(const RentalSeat& seat, const proto::WorkerGroup& group) = 0;
  virtual void Drop(const RentalSeat& seat, bool is_bad) = 0;
  virtual void Adopt(const std::set<RentalSeat>& running) = 0;
  /// What has happened since the last call. Never waits.
  virtual std::vector<RentalEvent> TakeEvents() = 0;
};

}  // namespace ps::provisioner
