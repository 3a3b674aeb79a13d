#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "ps/base/status.h"

namespace ps::worker {

/// How far a data set is loaded, and the way to end that before it is done. Whatever takes time in
/// proportion to the data calls Advance, at least once for some megabytes: loading has no time
/// limit, so this is how a worker that loads can be told to leave. Thread: any.
class LoadProgress {
 public:
  /// So many bytes more are to be read or gone over.
  void Expect(uint64_t bytes) { expected_ += bytes; }

  /// So many of them are done. Errors: kCancelled.
  Status Advance(uint64_t bytes) {
    done_ += bytes;
    return is_cancelled_ ? Status::Cancelled("loading was ended") : Status::Ok();
  }

  void Cancel() { is_cancelled_ = true; }

  /// So many bytes are done.
  uint64_t done() const { return done_; }

  /// From 0 to 1.
  double share() const {
    const auto expected = static_cast<double>(std::max<uint64_t>(expected_, 1));
    return std::min(static_cast<double>(done_) / expected, 1.0);
  }

 private:
  std::atomic<uint64_t> expected_ = 0;
  std::atomic<uint64_t> done_ = 0;
  std::atomic<bool> is_cancelled_ = false;
};

}  // namespace ps::worker
