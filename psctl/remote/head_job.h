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

/// `private_address`: the head's. Pure.
HeadJob HeadJobOf(proto::JobConfig config, const std::string& private_address);

}  // namespace ps::psctl
