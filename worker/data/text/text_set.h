#pragma once

#include <string>

#include "ps/base/status.h"
#include "ps/proto/job/job_config.h"
#include "worker/data/samples.h"

namespace ps::worker {

/// The windows of one named part of data.directory, which needs no other texts there: `validation`
/// of what is loaded, with the shape of samples; there is nothing else in it, and no fingerprint.
/// Errors: as ListTextPart and LoadText.
Result<LoadedData> LoadTextPart(
    const proto::DataConfig& config, const std::string& part, LoadProgress* progress);

}  // namespace ps::worker
