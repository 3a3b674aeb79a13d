#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "kernels/backend.h"
#include "ps/base/status.h"
#include "ps/net/loop.h"
#include "ps/proto/job/job_config.h"
#include "worker/data/load_progress.h"
#include "worker/trainer.h"

namespace ps::worker {

/// Makes a trainer, with its data, on a thread of its own: that may take minutes, in which the loop
/// has to be heard of and to hear notices. Thread: the loop's.
class Loader {
 public:
  using Backends = std::vector<std::shared_ptr<kernels::Backend>>;
  using Make = std::function<Result<std::unique_ptr<Trainer>>(
      const proto::JobConfig& config, Backends backends, LoadProgress* progress)>;

  /// `loop` outlives the loader; `on_loaded` is called on it after each Start, not after Stop.
  Loader(net::Loop* loop, Make make, std::function<void()> on_loaded);
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;
  ~Loader();

  /// Requires: nothing is being loaded, and what was loaded before was taken.
  void Start(const proto::JobConfig& config, Backends backends);

  /// Until on_loaded is called.
  bool is_loading() const { return progress_ != nullptr; }

  /// From 0 to 1. Requires: is_loading().
  double share() const { return progress_->share(); }

  /// What is in the way just now; empty: nothing. Requires: is_loading().
  std::string trouble() const { return progress_->trouble(); }

  /// What was loaded, once; null: nothing was, or it is taken. Errors: as Trainer::Make.
  Result<std::unique_ptr<Trainer>> Take();

  /// Ends what is being loaded, as soon as it says how far it is, and joins the thread.
  void Stop();

 private:
  void OnDone();

  net::Loop* const loop_;
  const Make make_;
  const std::function<void()> on_loaded_;
  std::unique_ptr<LoadProgress> progress_;                                // of what is being loaded
  Result<std::unique_ptr<Trainer>> loaded_ = std::unique_ptr<Trainer>();  // handed over by the post
  std::thread thread_;
};

}  // namespace ps::worker
