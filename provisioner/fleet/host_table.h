#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ps/base/status.h"
#include "ps/base/time.h"
#include "ps/proto/job/job_config.h"

namespace ps::provisioner {

/// The hosts of a job by zone, who has a free slot, and who is left out for a while because nothing
/// could be started there. Pure.
class HostTable {
 public:
  /// `name`: the field of the job, for people.
  explicit HostTable(
      const std::vector<proto::HostConfig>& hosts, std::string name = "launch.hosts");

  /// Takes a slot of the zone's host with the smallest share of its slots in use, the first of
  /// equal ones. Errors: kUnavailable, which says why of each host.
  Result<std::string> Take(TimePoint now, const std::string& zone = "");
  /// Takes the slot of a process that runs already. Does nothing when the host is not in the table.
  void TakeOn(const std::string& host);

  /// The slot of a process is free. One that `failed` to start, or whose host was lost, has its
  /// host left out: 10 s the first time, twice as long each time, up to 10 min.
  void Release(const std::string& host, bool failed, TimePoint now);

 private:
  struct Host {
    std::string name;
    std::string zone;
    uint32_t slots = 1;
    uint32_t used = 0;
    uint32_t failures = 0;  // in a row
    TimePoint left_out_until{};
  };

  Host* Find(const std::string& name);

  std::string name_;
  std::vector<Host> hosts_;
};

}  // namespace ps::provisioner
