#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "provisioner/rental/head_machine.h"
#include "provisioner/rental/rental_book.h"
#include "ps/base/status.h"
#include "ps/proto/job/job_config.h"

namespace ps::provisioner {

// What a job's `launch.rent` and `budget` mean for a RentalBook.

inline constexpr std::string_view kNameTag = "spotps-job";
/// On every machine of every run.
std::pair<std::string, std::string> OursTag();
/// Names who rents it: whether a run goes on is known there alone.
inline constexpr std::string_view kOwnerTag = "spotps-owner";

/// The runs that go on are registered in /tmp, for each user: so another user of this machine, and
/// another container of the same host name, is another owner.
struct OwnerFacts {
  std::string host;
  std::string machine_id;  // as systemd makes it; empty: there is none
  uint32_t user = 0;
  uint64_t tmp_device = 0;  // of /tmp, which each container has for itself
  uint64_t tmp_inode = 0;
};

/// The host's name and, behind a "-", 8 digits of all of it.
std::string OwnerNameOf(const OwnerFacts& facts);
/// That of this process.
std::string OwnerName();

/// Types by zones, in the job's order of types.
std::vector<Pool> PoolsOf(const proto::RentConfig& rent);
/// Those of them that a group may have: of its type, where that is one of the job's, and zones.
std::vector<Pool> PoolsOf(const proto::RentConfig& rent, const proto::WorkerGroup& group);

/// The pools of its head (launch.rent.head), which is no spot machine.
std::vector<Pool> HeadPoolsOf(const proto::RentConfig& rent);

/// What the machine that psctl runs on costs an hour, where that is a head: then its job names a
/// price of a head and no type. `budget` is for it, too.
double OwnRateOf(const proto::JobConfig& config);

/// A text that fits a tag's value: other characters become "-".
std::string TagText(std::string_view text);

/// `run`: names the run among all, in characters of a tag. `user_data`: what MachineScript makes.
RentalOptions RentalOptionsOf(
    const proto::JobConfig& config, const std::string& run, std::string user_data);

/// The same for a HeadMachine, but for its clock and who waits.
HeadMachine::Options HeadOptionsOf(
    const proto::JobConfig& config, const std::string& run, std::string user_data);

}  // namespace ps::provisioner
