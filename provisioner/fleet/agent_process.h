#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "provisioner/fleet/agent_exit.h"
#include "ps/base/status.h"
#include "ps/base/time.h"
#include "ps/base/unique_fd.h"

namespace ps::provisioner {

// ps_agent stands on this machine for one process that runs elsewhere. Whoever launches it sees a
// local child: its pid, its exit code, its signals. Only the agent waits for networks and queues.

/// How the process ended, for the agent to end likewise.
struct AgentEnd {
  int code = 0;
  int signal = 0;  // not 0: killed by it; EndsProcess
};

/// A code to exit with. exit(2) takes the lowest byte alone, which would make a success of 256.
int ExitCodeOf(int code);

/// Whether there is such a signal and a process without handlers dies of it: an agent that sent
/// itself SIGSTOP would never end.
bool EndsProcess(int signal);

enum class AgentWish : uint8_t {
  kNone,
  kStop,  // SIGTERM, to be passed on
  kKill,  // the agent is told to be gone: so must be the process, and all that was asked for it
};

/// What has arrived for the agent.
class AgentWishes {
 public:
  explicit AgentWishes(UniqueFd fd) : fd_(std::move(fd)) {}

  /// Readable when there is a wish.
  int fd() const { return fd_.get(); }

  /// Waits for at most `limit`.
  AgentWish Await(Duration limit) const;

 private:
  UniqueFd fd_;
};

/// Runs `work` in a child of this process, which has to have one thread, and ends as `work` says.
/// The child outlives a SIGKILL of this process and is told so: kKill. It can then undo what was
/// asked for elsewhere.
[[noreturn]] void RunAgent(const std::function<AgentEnd(const AgentWishes&)>& work);

/// A command whose stdin, stdout and stderr are pipes that never block.
/// It dies with the thread that started it, and with this object.
class Command {
 public:
  /// Errors: kNotFound, kIo.
  static Result<Command> Start(const std::vector<std::string>& words);
  Command(Command&& other) noexcept;
  Command& operator=(Command&&) = delete;
  ~Command();

  int in() const { return in_.get(); }

  int out() const { return out_.get(); }

  int errors() const { return errors_.get(); }

  void CloseInput() { in_.Reset(); }

  void Kill() const;
  /// The status of waitpid(2), once it has ended: call it when `out` is at its end, or after Kill.
  int Await();

 private:
  Command() = default;

  pid_t pid_ = -1;
  UniqueFd in_;
  UniqueFd out_;
  UniqueFd errors_;
};

/// Writes of `text` what the pipe takes now and removes it. False: nobody reads any more.
bool WriteSome(int fd, std::string_view* text);

/// Appends what there is to read. False: the end.
bool ReadSome(int fd, std::string* text);

/// The output of a command that has to end with code 0 within `limit`. Errors: kNotFound (no such
/// program), kDeadlineExceeded, kIo with its exit code and its last words.
Result<std::string> RunCommand(
    const std::vector<std::string>& words, std::string_view input, Duration limit);

/// The last line of `text` that says anything.
std::string LastLineOf(std::string_view text);

/// `words` for a POSIX shell, each in quotes.
std::string ShellQuoted(const std::vector<std::string>& words);

/// A line on stderr, which is the process's log.
void AgentSay(const std::string& text);

}  // namespace ps::provisioner
