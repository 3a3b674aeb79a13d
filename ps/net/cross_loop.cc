#include "ps/net/cross_loop.h"

#include <utility>

namespace ps::net {

void CrossLoop::Put(std::function<void()> fn) {
  const std::lock_guard lock(state_->mutex);
  if (state_->is_closed) {
    return;
  }
  state_->waiting.push_back(std::move(fn));
  if (!state_->is_told) {
    state_->is_told = state_->loop->Post([state = state_] { RunWaiting(state); }).ok();
  }
}

/// Those that have come by now: the loop's other work has its turn, too.
void CrossLoop::RunWaiting(const std::shared_ptr<State>& state) {
  size_t count = 0;
  {
    const std::lock_guard lock(state->mutex);
    count = state->waiting.size();
  }
  for (; count > 0; --count) {
    std::function<void()> fn;
    {
      const std::lock_guard lock(state->mutex);
      if (state->is_closed) {
        return;
      }
      fn = std::move(state->waiting.front());
      state->waiting.pop_front();
    }
    fn();
  }
  const std::lock_guard lock(state->mutex);
  state->is_told = !state->waiting.empty() && !state->is_closed &&
                   state->loop->Post([state] { RunWaiting(state); }).ok();
}

void CrossLoop::Close() {
  std::deque<std::function<void()>> dropped;  // after the lock
  const std::lock_guard lock(state_->mutex);
  state_->is_closed = true;
  dropped.swap(state_->waiting);
}

}  // namespace ps::net
