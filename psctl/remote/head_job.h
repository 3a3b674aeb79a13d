#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ps/proto/job/job_config.h"
#include "run/directory/head_file.h"

namespace ps::psctl {

/// A job as its head runs it: listening on all addresses and reached at the one in the provider's
/// network, with the files that it names beside it.
struct HeadJob {
  std::string text;  // a job file
  /// Files of this machine, and their names in the job's folder on the head.
  std::vector<std::pair<std::string, std::string>> files;
};

/// Whether a file or folder that a job names is in an object store, which all machines reach.
bool IsInBucket(const std::string& place);

/// The head that a job is for.
struct HeadFacts {
  std::string private_address;
  double usd_per_hour = 0;  // 0: not known
  std::string zone = {};
};

/// Pure.
HeadJob HeadJobOf(proto::JobConfig config, const HeadFacts& head);

/// The folder with what a run goes on from, in the run's folder on the head.
inline constexpr const char* kCheckpointsThere = "checkpoints";

/// What begins the run in its folder on the head, for a shell. `config`: as for HeadJobOf. One that
/// goes on has the job of its checkpoint, with the addresses of this head, `file`'s changes, and
/// all that decides what is started as it is in `config`: a copy in a bucket may be anybody's.
std::string BeginWords(
    const proto::JobConfig& config,
    const HeadFacts& head,
    const run::HeadFile& file,
    const std::string& programs,
    bool has_plan);

}  // namespace ps::psctl
