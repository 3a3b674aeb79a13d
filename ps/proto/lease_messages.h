#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ps/base/ids.h"
#include "ps/proto/job/job_config.h"
#include "ps/proto/metric.h"
#include "ps/proto/mode_messages.h"

namespace ps::proto {

// What a worker is given to do, and what it says of it.

/// What a worker trains on and tests with. Two workers whose fingerprints are equal read the same
/// samples in the same order. The CRCs are CRC-32C of the bytes as they are in memory, so it does
/// not matter whether the files are packed.
struct DatasetFingerprint {
  uint32_t channels = 0;
  uint32_t height = 0;
  uint32_t width = 0;
  uint32_t classes = 0;
  uint64_t train_count = 0;
  uint64_t test_count = 0;
  uint32_t train_images_crc = 0;
  uint32_t train_labels_crc = 0;
  uint32_t test_images_crc = 0;
  uint32_t test_labels_crc = 0;

  friend bool operator==(const DatasetFingerprint&, const DatasetFingerprint&) = default;
};

/// Asks for work beyond lease `newest`, the last one that the worker has seen granted. Answered
/// when there is some. Sent again with the same effect: if a later lease was granted already, that
/// grant is repeated. A worker may hold two leases: one whose last steps still travel, and the
/// next. A worker whose `data` is not that of the run, or whose `frozen_crc` isn't, is refused as
/// an invalid argument, and takes part no more.
struct LeaseRequest {
  Incarnation incarnation;
  LeaseId newest;
  DatasetFingerprint data{};
  std::string device{};     // that the worker computes on: "cpu", "cuda:1"
  uint32_t frozen_crc = 0;  // of the tensors that its program keeps and nobody trains; 0: none
};

enum class LeaseKind : uint8_t { kTrain = 0, kEvaluate = 1 };

/// The right and duty to process samples [begin, end) of the epoch's order (train) or of the test
/// set.
struct LeaseGrant {
  Incarnation incarnation;
  LeaseId lease;
  LeaseKind kind = LeaseKind::kTrain;
  uint32_t epoch = 0;  // from 0
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t round = 0;      // bsp; else 0
  uint32_t minibatch = 0;  // its samples, the last one of the lease may have fewer; 0: JoinReply's
  Mode mode = Mode::kAsync;   // that its steps are made in
  uint32_t local_steps = 1;   // minibatches of each step; the worker trains on them by itself
  uint64_t samples_done = 0;  // of the whole job, when it was granted
  StepSettings settings{};    // of its steps; `local_steps` is this worker's share of theirs

  /// Its steps are made by the worker's own optimizer, and say how far the parameters have moved.
  bool is_local() const { return settings.local_steps > 1; }

  uint64_t step_samples() const { return uint64_t{minibatch} * local_steps; }
};

/// A worker that is to leave ends a step of local steps early, and says so before it pushes what it
/// has of it: the lease ends at sample `end`, which is above its next one, and the rest can be
/// handed out again. So it is known what the step stands for, whatever becomes of the worker.
struct CutLease {
  Incarnation incarnation;
  LeaseId lease;
  uint64_t end = 0;
};

struct LeaseCut {
  Incarnation incarnation;
  LeaseId lease;
};

/// One step that every shard has acknowledged.
struct StepDone {
  Step step = 0;
  LeaseId lease;
  uint64_t begin = 0;  // samples [begin, end) of the lease
  uint64_t end = 0;
  double loss_sum = 0;
  uint64_t correct = 0;
  bool is_rejected = false;  // NaN or infinity: counted, not used
  uint64_t lives = 0;        // sum of the lives in which the shards have acknowledged it
  uint64_t placement = 0;    // when it was first sent to them
};

/// In step order, from the first that the coordinator has not acknowledged.
struct StepReport {
  Incarnation incarnation;
  std::vector<StepDone> steps;
};

struct StepAck {
  Incarnation incarnation;
  Step last_step = 0;
};

struct EvaluateReport {
  Incarnation incarnation;
  LeaseId lease;
  uint64_t samples = 0;
  double loss_sum = 0;
  uint64_t correct = 0;
  MetricSums sums;
};

struct EvaluateAck {
  Incarnation incarnation;
  LeaseId lease;
};

}  // namespace ps::proto
