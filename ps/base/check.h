#pragma once

#include <sstream>

namespace ps::internal {

/// Collects the message of a failed PS_CHECK and aborts when it goes out of scope.
class CheckFailure {
 public:
  CheckFailure(const char* file, int line, const char* condition);
  CheckFailure(const CheckFailure&) = delete;
  CheckFailure& operator=(const CheckFailure&) = delete;
  [[noreturn]] ~CheckFailure();

  std::ostream& stream() { return stream_; }

 private:
  std::ostringstream stream_;
};

/// Gives both branches of PS_CHECK's conditional the type void.
struct Voidify {
  void operator&(std::ostream& /*stream*/) const {}
};

}  // namespace ps::internal

/// For bugs only, never for input: aborts with file, line and the streamed values. On in release.
#define PS_CHECK(condition)                 \
  (condition) ? (void)0                     \
              : ::ps::internal::Voidify() & \
                    ::ps::internal::CheckFailure(__FILE__, __LINE__, #condition).stream()
