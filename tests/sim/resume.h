#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"
#include "checkpoint/storage/storage.h"
#include "ps/base/status.h"
#include "ps/coordinator/state/job_state.h"

namespace ps::sim {

/// What `psctl resume` goes on from.
struct FoundCheckpoint {
  checkpoint::Manifest manifest;
  std::vector<proto::KeptCheckpoint> kept;  // that the run may use, this one the newest
  std::vector<checkpoint::SetAside> set_aside;
};

/// The newest checkpoint that is whole; newer ones are set aside, as psctl does it. Errors:
/// kNotFound (none can be read), kIo and others (not now).
Result<FoundCheckpoint> FindNewestCheckpoint(checkpoint::Storage& storage, const std::string& path);

}  // namespace ps::sim
