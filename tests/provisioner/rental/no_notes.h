#pragma once

#include <vector>

#include "provisioner/rental/rental_note.h"

namespace ps::provisioner {

/// Keeps nothing, for tests of one life of a run.
class NoNotes final : public RentalNotes {
 public:
  Status Write(const RentalNote& /*note*/) override { return Status::Ok(); }

  Status Remove(uint64_t /*number*/) override { return Status::Ok(); }

  Result<std::vector<RentalNote>> Load() const override { return std::vector<RentalNote>(); }
};

}  // namespace ps::provisioner
