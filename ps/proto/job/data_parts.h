#pragma once

#include "ps/proto/job/job_config.h"

namespace ps::proto {

/// Whether data of this format may have parts beside those for training and tests, by names that
/// IsPartName allows: data.validation, `psctl evaluate --part`.
bool HasNamedParts(DatasetFormat format);

}  // namespace ps::proto
