#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "ps/base/status.h"
#include "worker/data/dataset.h"

namespace ps::worker {

/// A minibatch of training samples: positions of an epoch's order.
struct BatchId {
  uint32_t epoch = 0;
  SampleRange range;

  uint64_t count() const { return range.end - range.begin; }

  friend bool operator==(const BatchId& a, const BatchId& b) {
    return a.epoch == b.epoch && a.range.begin == b.range.begin && a.range.end == b.range.end;
  }
};

/// Fetches the minibatch that is foreseen on a thread of its own, while another is computed. One
/// ahead, so it holds two. What was foreseen and does not come costs its time and nothing else.
class Prefetcher {
 public:
  /// Memory of at least so many bytes, such as a device copies from. It stays until the next call
  /// for the same `slot` (0 or 1). Called by the thread of Take.
  using Allocate = std::function<Result<std::byte*>(int slot, size_t size_bytes)>;

  /// Writes a minibatch to memory of its size. Called by a thread of the Prefetcher or by that of
  /// Take, and by both at once for different batches.
  using Source = std::function<Status(const BatchId& batch, const BatchMemory& memory)>;

  /// How steps have come by their data.
  struct Figures {
    uint64_t batches = 0;
    uint64_t foreseen = 0;  // of them, fetched by the thread
    double waited_s = 0;    // within Take
  };

  Prefetcher(const BatchLayout& layout, Source source, Allocate allocate);
  /// `dataset` outlives it, and has pictures() for BatchForm::kBytes.
  Prefetcher(const Dataset* dataset, uint64_t seed, BatchForm form, Allocate allocate);
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;
  ~Prefetcher();

  /// This one will probably be taken next, or behind the one foreseen before, when that one has not
  /// been taken yet. Of several behind it the last counts. Thread: any.
  void Foresee(const BatchId& batch);

  /// The samples, which stay until the next call: those fetched ahead, else fetched now. Errors: of
  /// the source, such as Dataset::FetchTrain, and of Allocate. Thread: one.
  Result<BatchMemory> Take(const BatchId& batch);

  /// Thread: that of Take.
  const Figures& figures() const { return figures_; }

 private:
  struct Slot {
    std::byte* data = nullptr;
    uint64_t capacity = 0;  // in samples
  };

  /// What of `foreseen_` is in the slot that is not taken.
  enum class Stage : uint8_t { kNothing, kWanted, kFetching, kReady };

  void Run();
  // With the mutex.
  void Want(const BatchId& batch);
  void WantNext(const BatchId& taken);
  Status MakeRoom(int slot, uint64_t samples);

  // Constant after construction.
  const BatchLayout layout_;
  const Source source_;
  const Allocate allocate_;

  Figures figures_;

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_. While kFetching, the slot that is not taken belongs to the thread.
  Slot slots_[2];
  int taken_ = 0;
  Stage stage_ = Stage::kNothing;
  BatchId foreseen_;
  std::optional<BatchId> after_;  // foreseen since, and wanted once a batch is taken
  Status fetched_;                // when kReady
  bool is_stopping_ = false;

  std::thread thread_;
};

}  // namespace ps::worker
