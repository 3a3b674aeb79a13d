#pragma once

#include <sys/types.h>

#include <string>

#include "provisioner/fleet/kubernetes/pod_watch.h"
#include "ps/base/time.h"

namespace ps::provisioner {

/// Brings a Pod's output to stdout, line by line, in a process of its own: it reads a stream that
/// lasts as long as the Pod, and goes on with the next line after a break. It ends when all was
/// brought, and with the process that began it.
class PodLog {
 public:
  PodLog() = default;
  PodLog(const PodLog&) = delete;
  PodLog& operator=(const PodLog&) = delete;
  /// Kills it.
  ~PodLog();

  /// Once. `watch` outlives this object. Requires: the process has one thread.
  void Begin(
      const PodWatch& watch, const std::string& path, const std::string& pod, Duration limit);

  bool has_begun() const { return pid_ > 0 || is_done_; }

  /// Waits for the rest of a Pod that has ended, at most so long.
  void Finish(Duration limit);

 private:
  pid_t pid_ = -1;
  bool is_done_ = false;
};

/// The lines of a log that comes in pieces, each with its time in front; those that were there
/// already are left out.
class LogLines {
 public:
  /// What of it is new, without the times.
  std::string Add(std::string_view piece);
  /// A stream ended: what comes next begins a line. Returns an unfinished line.
  std::string Break();

  /// The last line's; empty: there was none.
  const std::string& last_time() const { return last_time_; }

 private:
  std::string NewIn(std::string_view line);

  std::string unfinished_;
  std::string last_time_;
};

}  // namespace ps::provisioner
