#pragma once

#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>

#include "ps/base/check.h"

namespace ps {

/// Failures by the reaction they ask for, not by where they come from. A new code needs a new
/// reaction.
enum class StatusCode : unsigned char {
  kOk = 0,
  kCancelled = 1,         // unwind quietly; never retry, never log as failure
  kDeadlineExceeded = 2,  // retry with backoff, then re-route
  kUnavailable = 3,       // retry with backoff, then re-route
  kOverloaded = 4,        // slow down, then retry
  kStale = 5,             // refresh generation, routing or clock, then retry once
  kRevoked = 6,           // drain, hand over, stop
  kNotFound = 7,          // report to the caller
  kInvalidArgument = 8,   // report to the caller
  kCorruption = 9,        // quarantine the data, use an older copy
  kIo = 10,               // stop serving what depends on it
  kUnsupported = 11,      // pick another backend
};

inline constexpr int kStatusCodeCount = 12;

/// "invalid argument", "stale", ...: for messages, never for comparison.
std::string_view StatusCodeName(StatusCode code);

/// The outcome of an operation that can fail. OK costs one null pointer.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message);
  Status(const Status& other);
  Status& operator=(const Status& other);
  Status(Status&&) noexcept = default;
  Status& operator=(Status&&) noexcept = default;
  ~Status() = default;

  static Status Ok() { return {}; }

  static Status Cancelled(std::string m) { return {StatusCode::kCancelled, std::move(m)}; }

  static Status DeadlineExceeded(std::string m) {
    return {StatusCode::kDeadlineExceeded, std::move(m)};
  }

  static Status Unavailable(std::string m) { return {StatusCode::kUnavailable, std::move(m)}; }

  static Status Overloaded(std::string m) { return {StatusCode::kOverloaded, std::move(m)}; }

  static Status Stale(std::string m) { return {StatusCode::kStale, std::move(m)}; }

  static Status Revoked(std::string m) { return {StatusCode::kRevoked, std::move(m)}; }

  static Status NotFound(std::string m) { return {StatusCode::kNotFound, std::move(m)}; }

  static Status InvalidArgument(std::string m) {
    return {StatusCode::kInvalidArgument, std::move(m)};
  }

  static Status Corruption(std::string m) { return {StatusCode::kCorruption, std::move(m)}; }

  static Status Io(std::string m) { return {StatusCode::kIo, std::move(m)}; }

  static Status Unsupported(std::string m) { return {StatusCode::kUnsupported, std::move(m)}; }

  bool ok() const { return state_ == nullptr; }

  StatusCode code() const { return ok() ? StatusCode::kOk : state_->code; }

  /// Empty when OK.
  std::string_view message() const { return ok() ? std::string_view() : state_->message; }

  /// "ok" or "<code name>: <message>".
  std::string ToString() const;

  /// Puts context in front of the message, outermost first: "pull shard 3: connection refused".
  Status Annotate(std::string_view context) &&;

  /// The only way to drop a failure on purpose; `why` is for the reader.
  void Ignore([[maybe_unused]] std::string_view why) const {}

 private:
  struct State {
    StatusCode code;
    std::string message;
  };

  std::unique_ptr<State> state_;
};

std::ostream& operator<<(std::ostream& out, const Status& status);

/// A value, or the reason why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}  // NOLINT(google-explicit-constructor): return T

  Result(Status status) : status_(std::move(status)) {  // NOLINT(google-explicit-constructor)
    PS_CHECK(!status_.ok()) << "a Result without a value needs an error";
  }

  bool ok() const { return value_.has_value(); }

  const Status& status() const& { return status_; }

  Status status() && { return std::move(status_); }

  const T& value() const& {
    PS_CHECK(ok()) << status_.ToString();
    return *value_;
  }

  T& value() & {
    PS_CHECK(ok()) << status_.ToString();
    return *value_;
  }

  T&& value() && {
    PS_CHECK(ok()) << status_.ToString();
    return std::move(*value_);
  }

  const T& operator*() const& { return value(); }

  T& operator*() & { return value(); }

  const T* operator->() const { return &value(); }

  T* operator->() { return &value(); }

  Result Annotate(std::string_view context) && {
    if (ok()) {
      return std::move(*this);
    }
    return std::move(status_).Annotate(context);
  }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace ps

#define PS_CONCAT_INNER(a, b) a##b
#define PS_CONCAT(a, b) PS_CONCAT_INNER(a, b)

/// Returns from the function when `expr`, a Status, is not OK.
#define PS_TRY(expr)                              \
  do {                                            \
    if (::ps::Status ps_s = (expr); !ps_s.ok()) { \
      return ps_s;                                \
    }                                             \
  } while (false)

/// PS_ASSIGN(auto x, F()): declares or assigns the value of a Result, or returns its Status.
#define PS_ASSIGN(lhs, expr) PS_ASSIGN_INNER(PS_CONCAT(ps_result_, __LINE__), lhs, expr)
#define PS_ASSIGN_INNER(tmp, lhs, expr) \
  auto tmp = (expr);                    \
  if (!tmp.ok()) {                      \
    return std::move(tmp).status();     \
  }                                     \
  lhs = std::move(tmp).value()
