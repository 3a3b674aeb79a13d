#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "ps/base/tensor_spec.h"
#include "ps/proto/files/profile.h"
#include "ps/proto/job/job_config.h"
#include "ps/proto/messages.h"

namespace ps::provisioner {

/// What a run tells of its job, from statuses of the coordinator. Pure.
///
/// A speed is measured worker by worker, between the first and the last of its steps in a stretch
/// of time with the same workers; what they do in their first moments (kWarmUpShare of the stretch)
/// does not count. So it is as exact as the statuses are frequent, however long a step takes.
///
/// With train.local_steps a step of the run is one exchange; what the profile counts are its
/// minibatches. With local_steps_by_speed workers exchange after different numbers of them, which
/// no fleet's speed can say: of several workers there is none then. Where the exchange was changed
/// while the run trained (psctl set, `auto`), only what minibatches take is told.
class RunProfiler {
 public:
  /// `seats[i]` is the group of the worker in seat i; later seats are like the last one.
  RunProfiler(
      std::string job,
      const std::vector<TensorSpec>& tensors,
      std::vector<proto::WorkerGroup> seats,
      const proto::TrainConfig& train = {},
      proto::ExchangeConfig exchange = {});

  /// `config`'s groups, seat by seat.
  static std::vector<proto::WorkerGroup> SeatsOf(const proto::JobConfig& config);

  void Observe(const proto::JobStatus& status);

  /// Server hosts, links and overlap are the caller's to say; nothing is fitted yet. Without enough
  /// steps of a kind its list is empty.
  proto::JobProfile Profile() const;

  /// Points, heartbeats and losses that are kept; it does not grow with the length of a run.
  size_t kept() const;

 private:
  struct Point {
    double at_s = 0;
    uint64_t samples = 0;
  };

  /// What a worker did from one heartbeat with a new step to the next.
  struct Heartbeat {
    double compute_s = 0;     // of a minibatch
    double pushed_bytes = 0;  // of a step
    double pulled_bytes = 0;
  };

  /// One worker's life, and what its newest heartbeats said.
  struct Worker {
    uint32_t seat = 0;
    uint32_t minibatch = 1;
    uint64_t samples = 0;      // newest, as is stats
    std::deque<Point> points;  // where samples grew, from MeasuredSince on
    proto::WorkerStats stats;  // the first that had so many steps
    std::deque<Heartbeat> heartbeats;
    double minibatches_timed = 0;  // in all heartbeats
  };

  struct Speed {
    double samples_per_s = 0;
    double steps_per_s = 0;
  };

  const proto::WorkerGroup& GroupOf(uint32_t seat) const;
  /// Workers of one type are alike: the first seat's pace is the type's, and one that is slowed
  /// otherwise tells nothing of it.
  bool IsTypical(uint32_t seat) const;
  void AddPoint(uint64_t samples, Worker* worker) const;
  void AddHeartbeat(const proto::WorkerStats& stats, Worker* worker) const;
  void ForgetGoneWorkers();
  static Speed SpeedSince(const Worker& worker, double since_s);
  proto::FleetSample Fleet() const;
  void AddWorkers(proto::JobProfile* profile) const;
  void AddTraffic(proto::JobProfile* profile) const;
  double Heterogeneity() const;
  /// `late` of the present workers, as in proto::LossSample.
  double Late() const;
  /// From where on the present workers count.
  double MeasuredSince() const;

  const std::string job_;
  const std::string fingerprint_;
  double parameter_bytes_ = 0;
  const std::vector<proto::WorkerGroup> seats_;
  const uint32_t local_steps_;
  const proto::ExchangeConfig exchange_;
  bool has_steady_exchange_ = true;
  const bool is_by_speed_;
  std::map<uint64_t, Worker> workers_;  // by incarnation; of the gone ones the newest
  std::vector<uint64_t> present_;
  double present_since_s_ = 0;
  double now_s_ = 0;
  std::vector<proto::LossSample> losses_;
  bool has_steady_fleet_ = true;  // the same workers since the first step
};

/// Leaves out a loss curve that other runs of the job would not make: of a run that `goes_on` from
/// where it was stopped or its coordinator lost, whose first steps other workers may have made; and
/// of more workers than have the job's learning rate.
void LeaveOutOthersCurve(const proto::JobConfig& config, bool goes_on, proto::JobProfile* profile);

}  // namespace ps::provisioner
