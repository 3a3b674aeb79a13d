#include "provisioner/fleet/local_launcher.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "ps/base/unique_fd.h"

namespace ps::provisioner {
namespace {

// Between fork and exec the child of a process with threads may only make async-signal-safe calls:
// everything that allocates is prepared before, and an error travels as one int through a pipe that
// exec closes. execvp, which looks for a name without a slash in PATH, is such a call in glibc.

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
  int null_fd;
  int log_fd;
  int error_fd;
  pid_t parent;
};

[[noreturn]] void Fail(const ChildPlan& plan) {
  const int error = errno;
  // Nothing is left to do if even this write fails: the parent then sees the exit code.
  [[maybe_unused]] const ssize_t n = ::write(plan.error_fd, &error, sizeof(error));
  ::_exit(127);
}

[[noreturn]] void RunChild(const ChildPlan& plan) {
  ::setpgid(0, 0);
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) {
    Fail(plan);
  }
  if (::getppid() != plan.parent) {
    ::_exit(127);  // the parent died before the line above took effect
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
  ::execvp(plan.arguments[0], plan.arguments);
  Fail(plan);
}

std::string DescribeWait(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    const int number = WTERMSIG(wait_status);
    const char* name = ::strsignal(number);
    return "killed by signal " + std::to_string(number) + " (" + (name == nullptr ? "?" : name) +
           ")";
  }
  return "exited with code " + std::to_string(WEXITSTATUS(wait_status));
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

class LocalLauncher final : public Launcher {
 public:
  LocalLauncher() = default;
  LocalLauncher(const LocalLauncher&) = delete;
  LocalLauncher& operator=(const LocalLauncher&) = delete;
  ~LocalLauncher() override;

  Result<ProcessHandle> Start(const LaunchSpec& spec) override;

  Status Kill(ProcessHandle handle) override;

  std::vector<ProcessExit> PollExits() override;

  int64_t pid(ProcessHandle handle) const override {
    const auto it = children_.find(handle);
    return it == children_.end() ? 0 : it->second.pid;
  }

 private:
  struct Child {
    pid_t pid = 0;
    proto::ProcessKind kind = proto::ProcessKind::kWorker;
    uint32_t index = 0;
  };

  std::map<ProcessHandle, Child> children_;  // started and not yet reaped
  uint64_t last_handle_ = 0;
};

LocalLauncher::~LocalLauncher() {
  for (const auto& [handle, child] : children_) {
    ::kill(child.pid, SIGKILL);
  }
  for (const auto& [handle, child] : children_) {
    while (::waitpid(child.pid, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
}

std::string Describe(const LaunchSpec& spec) {
  return "start " + std::string(proto::ProcessKindName(spec.kind)) + " " +
         std::to_string(spec.index);
}

Result<ProcessHandle> LocalLauncher::Start(const LaunchSpec& spec) {
  const UniqueFd log(
      ::open(spec.log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (log.get() < 0) {
    return Status::Io(
        Describe(spec) + ": cannot open log file " + spec.log_path + ": " + std::strerror(errno));
  }
  const UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  int ends[2];
  if (null.get() < 0 || ::pipe2(ends, O_CLOEXEC) != 0) {
    return Status::Io(Describe(spec) + ": " + std::strerror(errno));
  }
  const UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);

  std::vector<std::string> arguments{spec.program};
  arguments.insert(arguments.end(), spec.arguments.begin(), spec.arguments.end());
  const std::vector<char*> argument_pointers = PointersOf(arguments);
  const ChildPlan plan{
      argument_pointers.data(), null.get(), log.get(), write_end.get(), ::getpid()};

  const pid_t pid = ::fork();
  if (pid < 0) {
    return Status::Io(Describe(spec) + ": fork: " + std::strerror(errno));
  }
  if (pid == 0) {
    RunChild(plan);
  }
  write_end.Reset();
  int error = 0;
  ssize_t n = 0;
  do {  // ends at exec or at the child's death: both close its end
    n = ::read(read_end.get(), &error, sizeof(error));
  } while (n < 0 && errno == EINTR);
  if (n == static_cast<ssize_t>(sizeof(error))) {
    while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
    const std::string message =
        Describe(spec) + ": cannot run " + spec.program + ": " + std::strerror(error);
    return error == ENOENT ? Status::NotFound(message) : Status::Io(message);
  }
  const ProcessHandle handle(++last_handle_);
  children_[handle] = {pid, spec.kind, spec.index};
  return handle;
}

Status LocalLauncher::Kill(ProcessHandle handle) {
  const auto it = children_.find(handle);
  // An unreaped child keeps its pid, so the number can't belong to another process.
  if (it == children_.end() || ::kill(it->second.pid, SIGKILL) != 0) {
    return Status::NotFound("process " + std::to_string(handle.value) + " is gone");
  }
  return Status::Ok();
}

std::vector<ProcessExit> LocalLauncher::PollExits() {
  std::vector<ProcessExit> exits;
  for (auto it = children_.begin(); it != children_.end();) {
    int wait_status = 0;
    const pid_t pid = ::waitpid(it->second.pid, &wait_status, WNOHANG);
    if (pid != it->second.pid) {
      ++it;
      continue;
    }
    exits.push_back(
        {it->first,
         it->second.kind,
         it->second.index,
         WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0,
         IsFailure(wait_status),
         DescribeWait(wait_status)});
    it = children_.erase(it);
  }
  return exits;
}

}  // namespace

std::unique_ptr<Launcher> MakeLocalLauncher() {
  return std::make_unique<LocalLauncher>();
}

}  // namespace ps::provisioner
