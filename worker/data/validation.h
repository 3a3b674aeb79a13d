#pragma once

#include <cstdint>

#include "ps/base/status.h"
#include "ps/proto/job/job_config.h"
#include "ps/proto/messages.h"
#include "worker/data/samples.h"

// The samples that epochs are measured on: a part of the data that data.validation names and each
// format reads, or data.validation_share of those for training.

namespace ps::worker {

/// Takes a share for validation out of the training samples of `info`, if there is one. Errors:
/// kInvalidArgument, it leaves none for the one or the other.
Status KeepForValidation(const proto::DataConfig& config, DatasetInfo* info);

/// Says in `info` which part is called as if it were for validation and isn't used so, and takes
/// it out of what is left out. `config`: its directory is on this machine.
void FindUnusedValidation(const proto::DataConfig& config, DatasetInfo* info);

/// Makes the checksums of the tests those of a part for validation, too.
void AddValidation(
    uint64_t count, uint32_t images_crc, uint32_t labels_crc, proto::DatasetFingerprint* print);

}  // namespace ps::worker
