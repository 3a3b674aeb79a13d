#include "ps/base/time.h"

namespace ps {
namespace {

class SystemTimeSource final : public TimeSource {
 public:
  TimePoint Now() const override { return std::chrono::steady_clock::now(); }

  int64_t UnixMicros() const override {
    const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::microseconds>(since_epoch).count();
  }
};

}  // namespace

const TimeSource& SystemTime() {
  static const SystemTimeSource source;
  return source;
}

}  // namespace ps
