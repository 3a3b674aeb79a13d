#include "tests/bench/raw_loop.h"

#include <algorithm>
#include <cstring>
#include <thread>

namespace ps::bench {
namespace {

constexpr size_t kMessage = 1U << 20;

}  // namespace

RawLoop::RawLoop(const Shape& shape, bool is_pull)
    : is_pull_(is_pull),
      source_(shape.bytes()),
      target_(shape.bytes()),
      landing_(std::min<size_t>(kMessage, shape.bytes())) {
  std::memset(source_.data(), 1, source_.size());
  std::memset(target_.data(), 0, target_.size());
}

Outcome RawLoop::Run(uint64_t steps, TcpPair::Pacing pacing) {
  const TcpPair pair(pacing);
  std::thread server([this, steps, fd = pair.far] {
    TakeCoreOf(Side::kFar);
    std::byte small[64] = {};
    for (uint64_t i = 0; i < steps; ++i) {
      if (is_pull_) {
        ReadAll(fd, small, sizeof(small));
        BulkOut(fd);
      } else {
        BulkIn(fd);
        WriteAll(fd, small, sizeof(small));
      }
    }
  });
  const Meter meter;
  std::byte small[64] = {};
  for (uint64_t i = 0; i < steps; ++i) {
    if (is_pull_) {
      WriteAll(pair.near, small, sizeof(small));
      BulkIn(pair.near);
    } else {
      BulkOut(pair.near);
      ReadAll(pair.near, small, sizeof(small));
    }
  }
  const Outcome outcome = meter.Read(steps * source_.size());
  server.join();
  return outcome;
}

void RawLoop::BulkOut(int fd) {
  for (size_t at = 0; at < source_.size(); at += kMessage) {
    WriteAll(fd, source_.data() + at, std::min(kMessage, source_.size() - at));
  }
}

void RawLoop::BulkIn(int fd) {
  for (size_t at = 0; at < target_.size(); at += kMessage) {
    const size_t size = std::min(kMessage, target_.size() - at);
    ReadAll(fd, landing_.data(), size);
    std::memcpy(target_.data() + at, landing_.data(), size);
  }
}

}  // namespace ps::bench
