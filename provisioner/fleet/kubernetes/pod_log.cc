#include "provisioner/fleet/kubernetes/pod_log.h"

#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <string_view>

#include "provisioner/fleet/kubernetes/kube_api.h"
#include "provisioner/fleet/kubernetes/pod_state.h"
#include "ps/base/file.h"
#include "ps/base/random.h"
#include "ps/base/retry.h"

namespace ps::provisioner {
namespace {

constexpr Duration kFirstLogWait = std::chrono::milliseconds(100);
constexpr Duration kLongestLogWait = std::chrono::seconds(5);
/// After a Pod's end its log is asked for so often in vain.
constexpr int kTriesMax = 3;
constexpr int kMillisBetweenLooks = 10;

void Print(std::string_view text) {
  WriteAll(STDOUT_FILENO, text, "stdout").Ignore("there is nobody to tell");
}

/// Only its length is looked at: 2026-11-28T20:15:02.123456789Z, or with +01:00.
bool IsTime(std::string_view word) {
  return word.size() >= 20 && word[4] == '-' && word[10] == 'T';
}

void Bring(
    const PodWatch& watch, const std::string& path, const std::string& pod, Duration answer_limit) {
  KubeApi api(watch.socket(), answer_limit);
  LogLines lines;
  Random random(static_cast<uint64_t>(::getpid()));
  Backoff backoff(kFirstLogWait, kLongestLogWait);
  int tries = 0;
  while (true) {
    // Known before the stream begins, so a log that was read whole after it has all.
    const std::optional<PodState> state = watch.StateOf(pod);
    const bool is_over = state && IsPodEnd(*state);
    std::string query = path + "/log?timestamps=true" + (is_over ? "" : "&follow=true");
    if (!lines.last_time().empty()) {
      query += "&sinceTime=" + UrlText(lines.last_time());
    }
    const Result<KubeReply> reply = api.Stream(query, [&](std::string_view piece) {
      Print(lines.Add(piece));
      backoff.Reset();
    });
    Print(lines.Break());
    const bool is_read = reply.ok() && reply->is_ok();
    if (is_over && (is_read || ++tries >= kTriesMax)) {
      return;
    }
    ::poll(nullptr, 0, static_cast<int>(backoff.Next(&random) / std::chrono::milliseconds(1)));
  }
}

}  // namespace

std::string LogLines::NewIn(std::string_view line) {
  const std::string_view time = line.substr(0, line.find(' '));
  if (!IsTime(time)) {
    return std::string(line);  // the node's own words
  }
  if (time <= last_time_) {
    return "";
  }
  last_time_ = time;
  return std::string(line.substr(std::min(time.size() + 1, line.size())));
}

std::string LogLines::Add(std::string_view piece) {
  unfinished_ += piece;
  std::string text;
  size_t begin = 0;
  size_t end = 0;
  while ((end = unfinished_.find('\n', begin)) != std::string::npos) {
    text += NewIn(std::string_view(unfinished_).substr(begin, end + 1 - begin));
    begin = end + 1;
  }
  unfinished_.erase(0, begin);
  return text;
}

std::string LogLines::Break() {
  const std::string text = unfinished_.empty() ? "" : NewIn(unfinished_ + "\n");
  unfinished_.clear();
  return text;
}

PodLog::~PodLog() {
  Finish(Duration::zero());
}

void PodLog::Begin(
    const PodWatch& watch, const std::string& path, const std::string& pod, Duration limit) {
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() == parent) {
      Bring(watch, path, pod, limit);
    }
    ::_exit(0);
  }
}

void PodLog::Finish(Duration limit) {
  const TimePoint by = SystemTime().Now() + limit;
  while (pid_ > 0) {
    const bool is_late = SystemTime().Now() >= by;
    if (is_late) {
      ::kill(pid_, SIGKILL);
    }
    const pid_t ended = ::waitpid(pid_, nullptr, is_late ? 0 : WNOHANG);
    if (ended == pid_ || (ended < 0 && errno != EINTR)) {
      pid_ = -1;
      is_done_ = true;
    } else {
      ::poll(nullptr, 0, kMillisBetweenLooks);
    }
  }
}

}  // namespace ps::provisioner
