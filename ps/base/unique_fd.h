#pragma once

#include <unistd.h>

#include <utility>

namespace ps {

/// A descriptor that is closed with its owner; -1 for none.
class UniqueFd {
 public:
  explicit UniqueFd(int fd = -1) : fd_(fd) {}

  UniqueFd(UniqueFd&& other) noexcept : fd_(other.Release()) {}

  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) {
      Reset();
      fd_ = other.Release();
    }
    return *this;
  }

  ~UniqueFd() { Reset(); }

  int get() const { return fd_; }

  bool is_open() const { return fd_ >= 0; }

  /// The caller closes it from now on.
  int Release() { return std::exchange(fd_, -1); }

  /// Closes it now. An error of close(2) is dropped.
  void Reset() {
    if (fd_ >= 0) {
      ::close(Release());
    }
  }

 private:
  int fd_;
};

}  // namespace ps
