#pragma once

#include "checkpoint/manifest.h"

namespace ps::checkpoint {

/// Checkpoint 7: two tensors in three chunks on two shards. Every field has a value of its own.
Manifest SampleManifest();

}  // namespace ps::checkpoint
