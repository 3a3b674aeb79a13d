#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ps/base/status.h"

namespace ps::provisioner {

/// A folder in which cgroups with a share of the processors may be made.
struct CpuGroupParent {
  std::string path;
  bool is_v2 = false;  // cpu.max; else cpu.cfs_quota_us

  friend bool operator==(const CpuGroupParent&, const CpuGroupParent&) = default;
};

/// Where that is worth a try, by what /proc/self/mounts and /proc/self/cgroup say: this process's
/// own cgroup, then those above it. Pure.
std::vector<CpuGroupParent> CpuGroupParents(std::string_view mounts, std::string_view own);

/// Keeps processes within a share of the processors' time: a cgroup each, v2 or v1.
class CpuGroups {
 public:
  /// Errors: kUnavailable, which says what is missing.
  static Result<CpuGroups> Find();
  /// The first of `parents` in which groups can be made. Errors: as Find.
  static Result<CpuGroups> FindIn(const std::vector<CpuGroupParent>& parents);

  /// Makes the group, or sets its share anew. Returns the words that, put before a command, put it
  /// and what it starts into the group. `share` is of one processor: 0.5 is half of its time.
  /// Errors: kIo.
  Result<std::vector<std::string>> Limit(const std::string& name, double share) const;

  /// Nothing happens while a process is in the group, or when there is none.
  void Remove(const std::string& name) const;

  const CpuGroupParent& parent() const { return parent_; }

 private:
  explicit CpuGroups(CpuGroupParent parent) : parent_(std::move(parent)) {}

  CpuGroupParent parent_;
};

}  // namespace ps::provisioner
