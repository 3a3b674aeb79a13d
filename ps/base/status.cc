#include "ps/base/status.h"

namespace ps {

std::string_view StatusCodeName(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return "ok";
    case StatusCode::kCancelled:
      return "cancelled";
    case StatusCode::kDeadlineExceeded:
      return "deadline exceeded";
    case StatusCode::kUnavailable:
      return "unavailable";
    case StatusCode::kOverloaded:
      return "overloaded";
    case StatusCode::kStale:
      return "stale";
    case StatusCode::kRevoked:
      return "revoked";
    case StatusCode::kNotFound:
      return "not found";
    case StatusCode::kInvalidArgument:
      return "invalid argument";
    case StatusCode::kCorruption:
      return "corruption";
    case StatusCode::kIo:
      return "i/o error";
    case StatusCode::kUnsupported:
      return "unsupported";
  }
  return "unknown";
}

Status::Status(StatusCode code, std::string message) {
  if (code != StatusCode::kOk) {
    state_ = std::make_unique<State>(State{code, std::move(message)});
  }
}

Status::Status(const Status& other)
    : state_(other.ok() ? nullptr : std::make_unique<State>(*other.state_)) {}

Status& Status::operator=(const Status& other) {
  if (this != &other) {
    state_ = other.ok() ? nullptr : std::make_unique<State>(*other.state_);
  }
  return *this;
}

std::string Status::ToString() const {
  if (ok()) {
    return "ok";
  }
  std::string text(StatusCodeName(code()));
  text += ": ";
  text += message();
  return text;
}

Status Status::Annotate(std::string_view context) && {
  if (!ok()) {
    state_->message.insert(0, ": ");
    state_->message.insert(0, context);
  }
  return std::move(*this);
}

std::ostream& operator<<(std::ostream& out, const Status& status) {
  return out << status.ToString();
}

}  // namespace ps
