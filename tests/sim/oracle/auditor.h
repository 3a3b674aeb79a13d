#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"
#include "checkpoint/shard_store.h"
#include "checkpoint/storage/storage.h"
#include "tests/sim/oracle/oracle.h"

namespace ps::sim {

/// Reads the simulated storage behind everybody's back: every checkpoint that exists can be
/// restored, at any time, and has the values that the shards had.
class Auditor {
 public:
  /// All outlive it.
  Auditor(checkpoint::Storage* storage, Oracle* oracle, std::vector<std::string>* violations)
      : storage_(storage), oracle_(oracle), violations_(violations) {}

  /// A checkpoint exists from now on.
  void OnManifest(const checkpoint::Manifest& manifest);

  /// A database is not as it was written: what can't be read of it any more is to be said, and what
  /// can has to be right all the same.
  void NoteDamage(const std::string& directory) { damaged_.insert(directory); }

  /// A shard's store was written: its parts of the checkpoints that exist are still whole.
  void CheckParts(ShardId shard);

 private:
  /// Errors: it can't be restored. Wrong values are a violation.
  Status Check(const checkpoint::Manifest& manifest, const checkpoint::ManifestPart& part);
  Result<checkpoint::ShardStore*> StoreIn(const std::string& directory);
  bool IsDamaged(const std::string& name) const;

  checkpoint::Storage* const storage_;
  Oracle* const oracle_;
  std::vector<std::string>* const violations_;
  std::set<std::string> damaged_;
  std::map<std::string, std::unique_ptr<checkpoint::ShardStore>> stores_;  // by directory
};

}  // namespace ps::sim
