#include "provisioner/fleet/local_launcher.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "provisioner/fleet/environment.h"
#include "provisioner/fleet/local_process.h"
#include "ps/base/unique_fd.h"

namespace ps::provisioner {
namespace {

// Between fork and exec the child of a process with threads may only make async-signal-safe calls:
// everything that allocates is prepared before, and an error travels as one int through a pipe that
// exec closes. execvpe, which looks for a name without a slash in PATH, is such a call in glibc.
// Nobody waits for exec, which may take for ever on a file system that hangs: the pipe is read once
// the child has ended. The child is born with all signals blocked, so that one that is sent before
// exec stays pending, and no handler of the parent runs in it.

/// A null-terminated array of C strings over strings that outlive it.
std::vector<char*> PointersOf(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  pointers.reserve(strings.size() + 1);
  for (std::string& s : strings) {
    pointers.push_back(s.data());
  }
  pointers.push_back(nullptr);
  return pointers;
}

struct ChildPlan {
  char* const* arguments;
  char* const* environment;
  int null_fd;
  int log_fd;
  int error_fd;
  int go_fd;  // -1: goes at once, and dies with the parent
  pid_t parent;
};

[[noreturn]] void Fail(const ChildPlan& plan) {
  const int error = errno;
  // Nothing is left to do if even this write fails: the parent then sees the exit code.
  [[maybe_unused]] const ssize_t n = ::write(plan.error_fd, &error, sizeof(error));
  ::_exit(127);
}

/// Waits until the parent has noted this process. A parent that dies before closes the pipe.
void AwaitGo(const ChildPlan& plan) {
  char go = 0;
  ssize_t n = 0;
  do {
    n = ::read(plan.go_fd, &go, 1);
  } while (n < 0 && errno == EINTR);
  if (n != 1) {
    ::_exit(127);
  }
}

void DieWithParent(const ChildPlan& plan) {
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) {
    Fail(plan);
  }
  if (::getppid() != plan.parent) {
    ::_exit(127);  // the parent died before the line above took effect
  }
}

[[noreturn]] void RunChild(const ChildPlan& plan) {
  ::setpgid(0, 0);
  if (plan.go_fd < 0) {
    DieWithParent(plan);
  } else {
    AwaitGo(plan);
  }
  for (const int number : {SIGINT, SIGTERM, SIGPIPE, SIGHUP, SIGQUIT, SIGCHLD}) {
    ::signal(number, SIG_DFL);
  }
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  if (::dup2(plan.null_fd, STDIN_FILENO) < 0 || ::dup2(plan.log_fd, STDOUT_FILENO) < 0 ||
      ::dup2(plan.log_fd, STDERR_FILENO) < 0) {
    Fail(plan);
  }
  // Descriptors of libraries that forgot O_CLOEXEC. Kernels before 5.11 refuse: ours have it
  // anyway.
  ::close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
  ::execvpe(plan.arguments[0], plan.arguments, plan.environment);
  Fail(plan);
}

std::string DescribeWait(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    const int number = WTERMSIG(wait_status);
    const char* name = ::strsignal(number);
    return fmt::format("killed by signal {} ({})", number, name == nullptr ? "?" : name);
  }
  return fmt::format("exited with code {}", WEXITSTATUS(wait_status));
}

/// A process that was killed did not end by itself.
bool IsFailure(int wait_status) {
  if (WIFEXITED(wait_status)) {
    return WEXITSTATUS(wait_status) != 0;
  }
  const int number = WTERMSIG(wait_status);
  return number == SIGSEGV || number == SIGABRT || number == SIGBUS || number == SIGFPE ||
         number == SIGILL || number == SIGSYS;
}

/// All signals wait until it is gone.
class SignalBlock {
 public:
  SignalBlock() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }

  SignalBlock(const SignalBlock&) = delete;
  SignalBlock& operator=(const SignalBlock&) = delete;

  ~SignalBlock() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

void AwaitChild(pid_t pid) {
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

/// Both ends of a pipe, or neither.
struct Pipe {
  UniqueFd read_end;
  UniqueFd write_end;
};

Pipe MakePipe(int flags = 0) {
  int ends[2];
  return ::pipe2(ends, O_CLOEXEC | flags) == 0 ? Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])}
                                               : Pipe();
}

std::string Describe(const LaunchSpec& spec) {
  return fmt::format("start {} {}", proto::ProcessKindName(spec.kind), spec.index);
}

class LocalLauncher final : public Launcher {
 public:
  LocalLauncher() = default;
  LocalLauncher(const LocalLauncher&) = delete;
  LocalLauncher& operator=(const LocalLauncher&) = delete;
  ~LocalLauncher() override;

  Result<ProcessHandle> Start(const LaunchSpec& spec) override;
  Result<ProcessHandle> Adopt(const proto::LaunchRecord& launch) override;
  Status Kill(ProcessHandle handle) override;
  std::vector<ProcessExit> PollExits() override;

  int64_t pid(ProcessHandle handle) const override {
    const auto it = processes_.find(handle);
    return it == processes_.end() ? 0 : it->second.pid;
  }

 private:
  struct Process {
    pid_t pid = 0;
    proto::ProcessKind kind = proto::ProcessKind::kWorker;
    uint32_t index = 0;
    UniqueFd pidfd;       // of an adopted one; a child is reaped
    UniqueFd errors;      // of a child: gets errno when its program can't be run
    std::string program;  // of a child
  };

  static bool SendKill(const Process& process);
  static std::optional<ProcessExit> ExitOf(const Process& process);

  std::map<ProcessHandle, Process> processes_;  // whose end was not reported yet
  uint64_t last_handle_ = 0;
};

LocalLauncher::~LocalLauncher() {
  for (const auto& [handle, process] : processes_) {
    SendKill(process);
  }
  for (const auto& [handle, process] : processes_) {
    if (!process.pidfd.is_open()) {
      AwaitChild(process.pid);
      continue;
    }
    pollfd poll = {.fd = process.pidfd.get(), .events = POLLIN, .revents = 0};
    while (::poll(&poll, 1, -1) < 0 && errno == EINTR) {
    }
  }
}

/// Has the child go on, once it is noted. Nothing can fail here but the child itself.
Status NoteAndGo(const LaunchSpec& spec, pid_t pid, int go_fd) {
  PS_ASSIGN(const uint64_t ticks, StartTicksOf(pid));
  spec.note({spec.kind, spec.index, spec.launch, pid, ticks});
  [[maybe_unused]] const ssize_t n = ::write(go_fd, "", 1);
  return Status::Ok();
}

Result<ProcessHandle> LocalLauncher::Start(const LaunchSpec& spec) {
  const UniqueFd log(
      ::open(spec.log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (log.get() < 0) {
    return Status::Io(fmt::format(
        "{}: cannot open log file {}: {}", Describe(spec), spec.log_path, std::strerror(errno)));
  }
  const UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  Pipe errors = MakePipe(O_NONBLOCK);
  Pipe go = spec.note ? MakePipe() : Pipe();
  if (!null.is_open() || !errors.read_end.is_open() || (spec.note && !go.read_end.is_open())) {
    return Status::Io(fmt::format("{}: {}", Describe(spec), std::strerror(errno)));
  }
  std::vector<std::string> arguments{spec.program};
  arguments.insert(arguments.end(), spec.arguments.begin(), spec.arguments.end());
  const std::vector<char*> argument_pointers = PointersOf(arguments);
  std::vector<std::string> variables = WithoutCredentials(environ);
  const std::vector<char*> variable_pointers = PointersOf(variables);
  const ChildPlan plan{
      argument_pointers.data(),
      spec.gets_credentials ? environ : variable_pointers.data(),
      null.get(),
      log.get(),
      errors.write_end.get(),
      go.read_end.get(),
      ::getpid()};

  pid_t pid = 0;
  {
    const SignalBlock block;
    pid = ::fork();
    if (pid == 0) {
      go.write_end.Reset();
      RunChild(plan);
    }
  }
  if (pid < 0) {
    return Status::Io(fmt::format("{}: fork: {}", Describe(spec), std::strerror(errno)));
  }
  ::setpgid(pid, pid);  // the child does, too: whoever is first
  if (spec.note) {
    if (const Status noted = NoteAndGo(spec, pid, go.write_end.get()); !noted.ok()) {
      go.write_end.Reset();
      AwaitChild(pid);
      return Status(noted).Annotate(Describe(spec));
    }
  }
  const ProcessHandle handle(++last_handle_);
  processes_[handle] = {
      pid, spec.kind, spec.index, UniqueFd(), std::move(errors.read_end), spec.program};
  return handle;
}

Result<ProcessHandle> LocalLauncher::Adopt(const proto::LaunchRecord& launch) {
  PS_ASSIGN(UniqueFd pidfd, OpenProcess(launch.pid, launch.start_ticks));
  const ProcessHandle handle(++last_handle_);
  processes_[handle] = {
      static_cast<pid_t>(launch.pid), launch.kind, launch.index, std::move(pidfd), UniqueFd(), ""};
  return handle;
}

/// An unreaped child keeps its pid, so the number can't belong to another process.
bool LocalLauncher::SendKill(const Process& process) {
  return process.pidfd.is_open() ? KillProcess(process.pidfd.get())
                                 : ::kill(process.pid, SIGKILL) == 0;
}

Status LocalLauncher::Kill(ProcessHandle handle) {
  const auto it = processes_.find(handle);
  if (it == processes_.end() || !SendKill(it->second)) {
    return Status::NotFound(fmt::format("process {} is gone", handle.value));
  }
  return Status::Ok();
}

/// Nothing while it runs.
std::optional<ProcessExit> LocalLauncher::ExitOf(const Process& process) {
  ProcessExit exit;
  exit.kind = process.kind;
  exit.index = process.index;
  if (process.pidfd.is_open()) {
    if (!HasEnded(process.pidfd.get())) {
      return std::nullopt;
    }
    exit.description = "ended; an earlier coordinator started it, so its exit code is not known";
    return exit;
  }
  int wait_status = 0;
  if (::waitpid(process.pid, &wait_status, WNOHANG) != process.pid) {
    return std::nullopt;
  }
  exit.is_clean = WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0;
  exit.is_failure = IsFailure(wait_status);
  exit.code = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : -1;
  exit.description = DescribeWait(wait_status);
  int error = 0;
  // One that ran has left nothing here.
  if (::read(process.errors.get(), &error, sizeof(error)) == static_cast<ssize_t>(sizeof(error))) {
    exit.has_run = false;
    exit.description = fmt::format("cannot run {}: {}", process.program, std::strerror(error));
  }
  return exit;
}

std::vector<ProcessExit> LocalLauncher::PollExits() {
  std::vector<ProcessExit> exits;
  for (auto it = processes_.begin(); it != processes_.end();) {
    std::optional<ProcessExit> exit = ExitOf(it->second);
    if (!exit) {
      ++it;
      continue;
    }
    exit->handle = it->first;
    exits.push_back(*std::move(exit));
    it = processes_.erase(it);
  }
  return exits;
}

}  // namespace

std::unique_ptr<Launcher> MakeLocalLauncher() {
  return std::make_unique<LocalLauncher>();
}

}  // namespace ps::provisioner
