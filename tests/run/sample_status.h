#pragma once

#include "ps/proto/messages.h"

namespace ps::run {

inline proto::WorkerRow MakeWorkerRow(
    uint32_t seat, uint64_t incarnation, proto::WorkerRowState state) {
  proto::WorkerRow row;
  row.worker = WorkerId(seat);
  row.incarnation = Incarnation(incarnation);
  row.state = state;
  row.host = "127.0.0.1";
  row.pid = 4000 + static_cast<int64_t>(incarnation);
  row.minibatch = 64;
  row.slowdown = 1;
  row.device = "cpu";
  row.lease = LeaseId(100 + incarnation);
  row.clock = 700;
  row.staleness = 2.25F;
  row.silent_s = 0.2;
  row.samples_counted = 40'000;
  row.stats.steps = 625;
  row.stats.samples = 40'000;
  row.stats.samples_per_s = 812.4;
  row.stats.compute_s = 40;
  row.stats.wait_s = 10;
  row.stats.bytes_pushed = 512U << 20;
  row.stats.bytes_pulled = 600U << 20;
  return row;
}

/// A run in its second epoch that has lost one worker.
inline proto::JobStatus MakeStatus() {
  proto::JobStatus status;
  status.name = "fashion-mnist";
  status.run_directory = "/home/ada/runs/fashion-mnist-20240131-120000";
  status.model_file = status.run_directory + "/model.safetensors";
  status.state = proto::RunState::kTraining;
  status.mode = proto::Mode::kSsp;
  status.modes.in_force = {proto::Mode::kSsp, 3};
  status.modes.wanted = status.modes.in_force;
  status.epochs = 3;
  status.samples_total = 180'000;
  status.samples_counted = 86'400;
  status.steps_counted = 1'350;
  status.steps_lost = 2;
  status.steps_partial = 1;
  status.revocations_noticed = 1;
  status.revocations_unnoticed = 1;
  status.joins = 4;
  status.elapsed_s = 35.5;
  status.samples_per_s = 2431.2;
  status.eta_s = 38.5;
  status.train_loss = 0.41234;
  status.train_accuracy = 0.8523;
  status.generation = Generation(7);
  status.max_detect_s = 3;
  status.server_max_detect_s = 30;
  status.workers_wanted = 3;
  status.workers.push_back(MakeWorkerRow(0, 1, proto::WorkerRowState::kComputing));
  status.workers.push_back(MakeWorkerRow(1, 2, proto::WorkerRowState::kWaiting));
  status.workers.back().slowdown = 2.5;
  status.workers.back().device = "cuda:0";
  status.workers.back().stats.samples_per_s = 96.04;
  status.workers.push_back(MakeWorkerRow(2, 3, proto::WorkerRowState::kLost));
  for (uint32_t i = 0; i < 2; ++i) {
    proto::ShardRow row;
    row.shard = ShardId(i);
    row.address = "127.0.0.1:4100" + std::to_string(i);
    row.pid = 3990 + i;
    row.state = proto::ShardRowState::kReady;
    row.stats.chunk_count = 12;
    row.stats.parameter_bytes = 3U << 20;
    row.stats.steps_applied = 1'351;
    row.stats.bytes_received = 400U << 20;
    row.stats.bytes_sent = 450U << 20;
    row.stats.lr = 0.01;
    row.stats.staleness_histogram = {100, 300, 50, 2, 0};
    status.shards.push_back(row);
  }
  status.ledger.push_back({0, 60'000, 60'000, 0, 312});
  status.ledger.push_back({1, 60'000, 26'400, 1'024, 0});
  status.evaluations.push_back({1, 0.8612, 0.3811, 10'000, 24.25});
  status.waits.push_back(
      {"w1", "w0 (clock 700)", "staleness bound 3 at shard 1", 0.25, Generation(7)});
  return status;
}

}  // namespace ps::run
