#pragma once

#include <cstddef>
#include <vector>

#include "checkpoint/manifest.h"
#include "checkpoint/part.h"

namespace ps::checkpoint {

/// Checkpoint 7: two tensors in three chunks on two shards. Every field has a value of its own.
Manifest SampleManifest();

/// Of checkpoint 7.
PartRecord SamplePart();

/// What a small chunk holds after so many updates.
std::vector<float> SampleValues(int updates);

/// Chunk 2 of tensor 1 in checkpoint 7, raw, with one slot.
std::vector<std::byte> SampleChunkRecord();

/// The same after an update, in checkpoint 9: the value is a delta, the slot is all alike.
std::vector<std::byte> SampleDeltaRecord();

/// One with a slot of half the size.
std::vector<std::byte> SampleBf16Record();

}  // namespace ps::checkpoint
