#pragma once

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
/// Names the machine whose psctl rents it: whether a run goes on is known there alone.
inline constexpr std::string_view kOwnerTag = "spotps-owner";
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
