#pragma once

#include <string>
#include <utility>
#include <vector>

#include "provisioner/rental/rental_book.h"
#include "ps/base/status.h"
#include "ps/proto/job/job_config.h"

namespace ps::provisioner {

// What a job's `launch.rent` and `budget` mean for a RentalBook.

inline constexpr std::string_view kNameTag = "spotps-job";
/// On every machine of every run.
std::pair<std::string, std::string> OursTag();
/// Names the machine whose psctl rents it: whether a run goes on is known there alone.
inline constexpr std::string_view kOwnerTag = "spotps-owner";
std::string OwnerName();

/// Types by zones, in the job's order of types.
std::vector<Pool> PoolsOf(const proto::RentConfig& rent);
/// Those of them that a group may have: of its type, where that is one of the job's, and zones.
std::vector<Pool> PoolsOf(const proto::RentConfig& rent, const proto::WorkerGroup& group);

/// A text that fits a tag's value: other characters become "-".
std::string TagText(std::string_view text);

/// `run`: names the run among all, in characters of a tag. `user_data`: see MachineScript.
RentalOptions RentalOptionsOf(
    const proto::JobConfig& config, const std::string& run, std::string user_data);

/// A key that machines show, so that no other can be taken for them.
struct HostKey {
  std::string secret;  // OpenSSH's private key file
  std::string open;    // its public one: "ssh-ed25519 AAAA... comment"
};

/// What a rented machine runs as root at its first boot:
///  - It watches over itself: after `watch_min` minutes without a process of ours it shuts down.
///  - It runs the job's own script, and shuts down if that fails.
///  - It shows `key` to whoever comes by ssh. As nobody else can, and only then, psctl gets in once
///    all this is done.
/// Errors: kInvalidArgument: longer than a provider takes (16 KiB), which the job's script has to
/// be shorter for.
Result<std::string> MachineScript(uint32_t watch_min, std::string_view setup, const HostKey& key);

}  // namespace ps::provisioner
