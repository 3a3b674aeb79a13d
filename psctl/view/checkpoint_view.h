#pragma once

#include <optional>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"
#include "checkpoint/reader.h"

namespace ps::psctl {

/// What `psctl checkpoint verify` found out about one.
struct Verified {
  checkpoint::CheckpointId id = 0;
  size_t chunks = 0;
  uint64_t logical_bytes = 0;
  std::vector<checkpoint::Damage> damages;
};

/// That of a run's best epoch (checkpoint.best).
struct BestCheckpoint {
  checkpoint::CheckpointId id = 0;
  uint64_t epoch = 0;
  std::string metric;
  double score = 0;
};

/// A table, a row a checkpoint, and a line about the best one if it is among them. `width_max` 0:
/// as wide as it is.
std::string RenderCheckpoints(
    const std::vector<checkpoint::Manifest>& manifests,
    const std::optional<BestCheckpoint>& best,
    size_t width_max);
std::string CheckpointsToJson(
    const std::vector<checkpoint::Manifest>& manifests, const std::optional<BestCheckpoint>& best);

/// One of them with its shards and tensors. `job` is the name of the job.
std::string RenderCheckpoint(
    const checkpoint::Manifest& manifest, const std::string& job, size_t width_max);

/// A line if it is whole, else one for each damage.
std::string RenderVerified(const Verified& verified);
std::string VerifiedToJson(const std::vector<Verified>& all);

std::string RenderDifferences(
    const std::vector<checkpoint::TensorDifference>& differences, size_t width_max);
std::string DifferencesToJson(const std::vector<checkpoint::TensorDifference>& differences);

}  // namespace ps::psctl
