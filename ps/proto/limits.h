#pragma once

#include <cstddef>
#include <cstdint>

namespace ps::proto {

// The limits of a run in one place, checked against each other below, so that what one of them
// allows no other forbids. What depends on a config or a model is checked when these are read
// (CheckRules, CheckModelLimits). PROTOCOL.md, section 5, is the same table for readers.

// Who takes part.
inline constexpr uint32_t kSeatsMax = 16'384;  // workers of a job
inline constexpr uint32_t kShardsMax = 1024;   // servers.count x servers.shards_per_server
inline constexpr uint32_t kShareMax = 1000;    // of the parameters, in proportion, of a server
inline constexpr uint32_t kPortMax = 65535;
/// Accepted by one process at ports. A worker that comes back may be there twice for a while.
inline constexpr uint32_t kConnectionsMax = 2 * kSeatsMax + kShardsMax;

// What is trained.
inline constexpr size_t kTensorsMax = 8192;
inline constexpr size_t kTensorDimsMax = 8;
inline constexpr size_t kChunksMax = 100'000;  // of all tensors
inline constexpr int64_t kTensorElementsMax = int64_t{1} << 46;

/// Samples of a worker's step, all its minibatches together.
inline constexpr uint32_t kStepSamplesMax = 1U << 24;
inline constexpr uint32_t kLocalStepsMax = 10'000;  // of train.local_steps

// Texts, in bytes. An encoder cuts longer ones, so that the peer can always read them.
inline constexpr size_t kNameBytesMax = 256;               // node, host, tensor, state
inline constexpr size_t kTextBytesMax = size_t{16} << 10;  // message, reason, wait
inline constexpr size_t kDeviceBytesMax = 64;              // "cuda:3"
inline constexpr size_t kConfigBytesMax = size_t{1} << 20;
/// The longest address in a job file: names that are filled in make it longer.
inline constexpr size_t kAddressBytesMax = 200;

// Lists of a report. An encoder leaves out what is beyond them.
inline constexpr size_t kWaitsPerPeerMax = 64;  // of one heartbeat
inline constexpr size_t kFiguresMax = 16;       // of one heartbeat, and of a status
inline constexpr size_t kFigureNameBytesMax = 64;

// Lists of a status, and the texts of its waits.
inline constexpr size_t kStatusWorkersMax = 4352;  // with some that have left
inline constexpr size_t kStatusEpochsMax = 1000;   // the newest
inline constexpr size_t kStatusWaitsMax = 512;
inline constexpr size_t kStatusGroupsMax = 256;  // of workers
inline constexpr size_t kStatusPinnedMax = 64;   // parts of the model
inline constexpr size_t kStatusWaitBytesMax = 1024;
inline constexpr size_t kStatusClocksMax = 10'000;  // entries of ShardStats::workers

// Frames.
inline constexpr uint32_t kHeaderBytesMax = 8U << 20;  // FlatBuffers part
inline constexpr uint64_t kPayloadBytesMax = uint64_t{64} << 20;
inline constexpr uint32_t kHandshakeBytesMax = 20U << 10;  // until the token was shown
/// Unsent bytes of a connection until the job's servers.queue_mib is known.
inline constexpr uint64_t kQueueBytesDefault = uint64_t{64} << 20;

// ---- What the largest messages take, from above ------------------------------------------------

/// A table with its offsets and small fields, apart from texts and lists.
inline constexpr size_t kTableBytesMax = 256;
inline constexpr size_t kPlacementBytesMax = kChunksMax * 24 + kTableBytesMax;
inline constexpr size_t kMembershipBytesMax = kSeatsMax * (16 + 2 * 8) + kTableBytesMax;
inline constexpr size_t kTensorBytesMax = kNameBytesMax + 8 * kTensorDimsMax + kTableBytesMax / 2;

static_assert(
    kPlacementBytesMax + kConfigBytesMax + kShardsMax * (kNameBytesMax + 64) +
            kTensorsMax * kTensorBytesMax + kTableBytesMax <=
        kHeaderBytesMax,
    "JoinReply");
static_assert(
    kPlacementBytesMax + kConfigBytesMax + kTensorsMax * kTensorBytesMax + kMembershipBytesMax +
            kTableBytesMax <=
        kHeaderBytesMax,
    "ShardSetup");
static_assert(kChunksMax * (16 + 16) + kTableBytesMax <= kHeaderBytesMax, "PushRequest");
static_assert(kChunksMax * 32 + kTableBytesMax <= kHeaderBytesMax, "PullReply");
static_assert(
    kWaitsPerPeerMax * (kNameBytesMax + 2 * kTextBytesMax + kTableBytesMax) + kSeatsMax * 32 +
            kTableBytesMax <=
        kHeaderBytesMax,
    "ShardHeartbeat");
static_assert(
    kStatusWorkersMax * (3 * kNameBytesMax + kDeviceBytesMax + kTableBytesMax) +
            kShardsMax * (2 * kNameBytesMax + 2 * kTableBytesMax) + kStatusClocksMax * 32 +
            kStatusEpochsMax * 2 * 40 +
            kStatusWaitsMax * (kNameBytesMax + 2 * kStatusWaitBytesMax + kTableBytesMax) +
            kStatusGroupsMax * (kNameBytesMax + kStatusWaitBytesMax + kTableBytesMax) +
            kStatusPinnedMax * (kNameBytesMax + kTableBytesMax) +
            kFiguresMax * (kFigureNameBytesMax + kTableBytesMax) + 5 * kTextBytesMax +
            4 * kTableBytesMax <=
        kHeaderBytesMax,
    "StatusReply");
static_assert(kTextBytesMax + kTableBytesMax <= kHandshakeBytesMax, "a Refusal of a Hello");
static_assert(kHeaderBytesMax + kPayloadBytesMax / 2 <= kQueueBytesDefault, "ShardSetup is queued");

}  // namespace ps::proto
