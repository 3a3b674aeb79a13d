#include "run/shared_state.h"

#include <fmt/core.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <new>

namespace ps::run {

static_assert(std::atomic<uint64_t>::is_always_lock_free, "processes share no lock");

Result<SharedState*> MakeSharedState() {
  void* const memory = ::mmap(
      nullptr, sizeof(SharedState), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return Status::Io(fmt::format("no memory to share: {}", std::strerror(errno)));
  }
  return new (memory) SharedState;
}

bool BeatWatch::StandsStill(uint64_t beats, Duration limit, TimePoint now) {
  const bool is_late = !looked_at_ || now - *looked_at_ > 3 * kLookEvery;
  looked_at_ = now;
  if (beats == 0 || beats != beats_ || is_late) {
    beats_ = beats;
    since_ = now;
    return false;
  }
  if (now - since_ <= limit) {
    return false;
  }
  since_ = now;
  return true;
}

}  // namespace ps::run
