#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ps/proto/job/job_config.h"

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

/// `private_address`: the head's. Pure.
HeadJob HeadJobOf(proto::JobConfig config, const std::string& private_address);

/// For psctl resume in the job's folder on the head, as words of a shell: what differs from the job
/// of a checkpoint that another head wrote, and `changes`, KEY=VALUE each. `config`: as for
/// HeadJobOf.
std::string SettingsOnHead(
    const proto::JobConfig& config,
    const std::string& private_address,
    const std::vector<std::string>& changes);

}  // namespace ps::psctl
