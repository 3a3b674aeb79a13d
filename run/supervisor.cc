// The processes of a run:
//
//   ps_coordinator         supervisor: no thread, no file of the run but its lock
//   `-- ps_coordinator     coordinator: a fork without exec, in a session of its own
//       `-- ps_server ...  its children; the supervisor's when the coordinator is killed
//
// The coordinator is no part of the terminal's process group, so that each request to stop reaches
// it once: from here.

#include "run/supervisor.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <span>
#include <utility>

#include "ps/base/file.h"
#include "ps/base/text.h"
#include "ps/base/time.h"
#include "ps/process/process_start.h"
#include "run/try_again.h"

namespace ps::run {
namespace {

/// A coordinator that is killed within kShortLife, so often in a row, is not started again.
constexpr int kShortLivesMax = 5;
constexpr Duration kShortLife = std::chrono::seconds(10);
constexpr int kLookMillis = static_cast<int>(BeatWatch::kLookEvery / std::chrono::milliseconds(1));
/// As long as servers and workers wait for a coordinator, unless the job says otherwise.
constexpr Duration kStartPatience = std::chrono::seconds(60);

/// Not handled where they are ignored from the start: AddStopSignals.
constexpr std::initializer_list<int> kStopSignals = {SIGINT, SIGTERM, SIGHUP};

/// A message of one descriptor and a text.
struct LinkMessage {
  explicit LinkMessage(std::span<char> text) : part{text.data(), text.size()} {
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof(control);
  }

  iovec part;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header = {};
};

Status SendRun(int socket, std::string root, int lock_fd) {
  LinkMessage message(root);
  cmsghdr* const rights = CMSG_FIRSTHDR(&message.header);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(rights), &lock_fd, sizeof(int));
  return ::sendmsg(socket, &message.header, MSG_NOSIGNAL) < 0
             ? Status::Io(fmt::format("the supervisor does not hear: {}", std::strerror(errno)))
             : Status::Ok();
}

/// Nothing when there is no message.
std::optional<SupervisedRun> ReceiveRun(int socket) {
  char text[PATH_MAX];
  LinkMessage message(text);
  const ssize_t n = ::recvmsg(socket, &message.header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  const cmsghdr* const rights = n > 0 ? CMSG_FIRSTHDR(&message.header) : nullptr;
  if (rights == nullptr || rights->cmsg_type != SCM_RIGHTS) {
    return std::nullopt;
  }
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(rights), sizeof(int));
  return SupervisedRun{{std::string(text, static_cast<size_t>(n))}, FileLock(UniqueFd(fd)), false};
}

/// What this process writes from now on goes to the end of the file.
Status MoveOutputTo(const std::string& path) {
  const UniqueFd log(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  const UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!log.is_open() || !null.is_open() || ::dup2(null.get(), STDIN_FILENO) < 0 ||
      ::dup2(log.get(), STDOUT_FILENO) < 0 || ::dup2(log.get(), STDERR_FILENO) < 0) {
    return IoError("cannot write", path);
  }
  return Status::Ok();
}

void AddStopSignals(sigset_t* set) {
  for (const int number : SignalsToHandle(kStopSignals)) {
    ::sigaddset(set, number);
  }
}

std::string SignalText(int number) {
  const char* const name = ::strsignal(number);
  return fmt::format("signal {} ({})", number, name == nullptr ? "?" : name);
}

class Supervisor {
 public:
  /// `ready` gets the run's directory once a detached run listens.
  Supervisor(const CoordinatorProcess& process, const Console& console, UniqueFd ready = UniqueFd())
      : process_(process),
        console_(console),
        is_detached_(ready.is_open()),
        ready_(std::move(ready)) {}

  /// Until the run is over. The coordinator's process returns from here, too.
  int Run();

 private:
  Status StartProcess(bool* is_child);
  Status StartInTime(bool* is_child);
  /// True in the new process.
  bool Fork();
  int Coordinate();
  void AwaitSomething();
  void EndIfFrozen();
  void OnSignal(int number);
  void OnRun(SupervisedRun run);
  void Reap();
  /// What became of the run when the coordinator's process is over; nothing: another one is to be
  /// started.
  std::optional<int> Outcome(int wait_status);

  const CoordinatorProcess& process_;
  const Console& console_;
  const bool is_detached_;
  UniqueFd ready_;  // until the run listens
  sigset_t former_mask_ = {};
  UniqueFd signals_;
  UniqueFd link_;          // to the coordinator's process
  UniqueFd process_link_;  // in that process
  pid_t child_ = 0;
  std::optional<int> wait_status_;  // of the child, once it is over
  std::optional<SupervisedRun> run_;
  SharedState* shared_ = nullptr;
  BeatWatch beat_watch_;
  bool has_told_ = false;    // the child, which run it has
  std::optional<int> stop_;  // the newest request to stop: the run is to end
  TimePoint started_{};
  int short_lives_ = 0;
};

int Supervisor::Run() {
  // Servers and workers whose coordinator is killed become children of this process, and reaped.
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  sigset_t handled;
  ::sigemptyset(&handled);
  ::sigaddset(&handled, SIGCHLD);
  ::sigaddset(&handled, SIGTSTP);
  AddStopSignals(&handled);
  ::sigprocmask(SIG_BLOCK, &handled, &former_mask_);
  signals_ = UniqueFd(::signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_.is_open()) {
    return Fail(console_, Status::Io(fmt::format("signalfd: {}", std::strerror(errno))));
  }
  Result<SharedState*> shared = MakeSharedState();
  if (!shared.ok()) {
    return Fail(console_, shared.status());
  }
  shared_ = *shared;
  while (true) {
    bool is_child = false;
    const Status started = run_ ? StartInTime(&is_child) : StartProcess(&is_child);
    if (!started.ok()) {
      return Fail(console_, started);
    }
    if (is_child) {
      return Coordinate();
    }
    if (stop_) {
      ::kill(child_, *stop_);  // the one before was killed, perhaps before it had acted on it
    }
    while (!wait_status_) {
      AwaitSomething();
    }
    if (std::optional<SupervisedRun> told = ReceiveRun(link_.get())) {
      OnRun(*std::move(told));
    }
    if (const std::optional<int> outcome = Outcome(*wait_status_)) {
      return *outcome;
    }
  }
}

/// Another process at the end of a link. Errors: kIo.
Status Supervisor::StartProcess(bool* is_child) {
  int ends[2];  // keep the borders of messages
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return Status::Io(fmt::format("socketpair: {}", std::strerror(errno)));
  }
  link_ = UniqueFd(ends[0]);
  process_link_ = UniqueFd(ends[1]);
  *is_child = Fork();
  if (*is_child) {
    return Status::Ok();
  }
  const int error = errno;
  process_link_.Reset();
  return child_ < 0 ? Status::Io(fmt::format("fork: {}", std::strerror(error))) : Status::Ok();
}

/// A machine that has no process or descriptor left for a moment ends no run.
Status Supervisor::StartInTime(bool* is_child) {
  const TryAgainWorld world{&SystemTime(), WaitUnlessStopped, [this](const std::string& line) {
                              console_.err("psctl: " + line);
                            }};
  return TryAgain(
      [&] { return TryOutcome{StartProcess(is_child)}; }, [] { return kStartPatience; }, world);
}

bool Supervisor::Fork() {
  wait_status_.reset();
  has_told_ = false;
  shared_->beats = 0;
  started_ = SystemTime().Now();
  const pid_t parent = ::getpid();
  child_ = ::fork();
  if (child_ != 0) {
    return false;
  }
  ::setsid();
  if (!is_detached_) {
    ::prctl(PR_SET_PDEATHSIG, kSupervisorLost);
    if (::getppid() != parent) {
      ::_exit(kExitFailed);  // the parent died before the line above took effect
    }
  }
  ready_.Reset();
  signals_.Reset();
  link_.Reset();
  sigset_t mask = former_mask_;
  if (run_) {
    AddStopSignals(&mask);
  }
  ::sigprocmask(SIG_SETMASK, &mask, nullptr);
  return true;
}

int Supervisor::Coordinate() {
  Console console = console_;
  if (is_detached_) {
    console.out_width = 0;
    console.is_err_terminal = false;
    console.is_joined = true;
  }
  SupervisorLink link(std::move(process_link_), is_detached_, shared_);
  if (run_) {
    run_->is_journal_behind = shared_->is_journal_behind;
  }
  return run_ ? process_.go_on(*std::move(run_), console, &link) : process_.begin(console, &link);
}

void Supervisor::AwaitSomething() {
  pollfd polls[] = {
      {.fd = signals_.get(), .events = POLLIN, .revents = 0},
      {.fd = link_.get(), .events = POLLIN, .revents = 0}};
  // The coordinator closes its side when it ends: SIGCHLD says more of that.
  const nfds_t count = has_told_ ? 1 : 2;
  const int look_ms = run_ ? kLookMillis : -1;
  if (::poll(polls, count, look_ms) < 0) {
    return;
  }
  EndIfFrozen();
  if (count == 2 && (polls[1].revents & POLLIN) != 0) {
    if (std::optional<SupervisedRun> told = ReceiveRun(link_.get())) {
      OnRun(*std::move(told));
    }
  }
  signalfd_siginfo info = {};
  while (::read(signals_.get(), &info, sizeof(info)) == static_cast<ssize_t>(sizeof(info))) {
    OnSignal(static_cast<int>(info.ssi_signo));
  }
}

/// One that is stopped, or that waits for a disk, for as long as half of what servers and workers
/// wait for: another one has the other half to come.
void Supervisor::EndIfFrozen() {
  const Duration limit = std::chrono::milliseconds(shared_->standstill_max_ms.load());
  if (!beat_watch_.StandsStill(shared_->beats, limit, SystemTime().Now()) || wait_status_) {
    return;
  }
  console_.err(fmt::format(
      "psctl: the coordinator (pid {}) has stood still for {:.0f} s, as a process that is stopped "
      "or waits for a disk; it is killed\n",
      child_,
      Seconds(limit)));
  ::kill(child_, SIGKILL);
}

void Supervisor::OnSignal(int number) {
  if (number == SIGCHLD) {
    Reap();
    return;
  }
  if (number != SIGTSTP) {
    stop_ = number;
  }
  if (wait_status_) {
    return;  // its number may be another process's by now
  }
  if (number == SIGTSTP) {
    ::kill(child_, SIGSTOP);
    ::kill(::getpid(), SIGSTOP);  // until the shell says SIGCONT
    ::kill(child_, SIGCONT);
  } else {
    ::kill(child_, number);
  }
}

void Supervisor::Reap() {
  int wait_status = 0;
  for (pid_t pid = 0; (pid = ::waitpid(-1, &wait_status, WNOHANG)) > 0;) {
    if (pid == child_) {
      wait_status_ = wait_status;
    }
  }
}

void Supervisor::OnRun(SupervisedRun run) {
  has_told_ = true;
  // The process that goes on with a run says so, too. One that can't goes on with another run.
  if (run_ && run_->paths.root == run.paths.root) {
    return;
  }
  const bool is_another = run_.has_value();
  run_ = std::move(run);
  if (is_another && is_detached_) {
    if (const Status moved = MoveOutputTo(run_->paths.run_log()); !moved.ok()) {
      Fail(console_, moved);
    }
  }
  if (!ready_.is_open()) {
    return;
  }
  if (const Status moved = MoveOutputTo(run_->paths.run_log()); !moved.ok()) {
    Fail(console_, moved);
  }
  ::setsid();
  const std::string& root = run_->paths.root;
  WriteAll(ready_.get(), root, "the command").Ignore("it was killed, and the run goes on");
  ready_.Reset();
}

std::optional<int> Supervisor::Outcome(int wait_status) {
  if (WIFEXITED(wait_status)) {
    return WEXITSTATUS(wait_status);
  }
  const int number = WTERMSIG(wait_status);
  for (const int stop : kStopSignals) {
    if (number == stop) {  // it came before anything had begun
      ::signal(stop, SIG_DFL);
      ::sigprocmask(SIG_SETMASK, &former_mask_, nullptr);
      ::raise(stop);
      return kExitFailed;
    }
  }
  const std::string killed = "psctl: the coordinator was killed by " + SignalText(number);
  if (!run_) {
    console_.err(killed + " before the run had begun\n");
    return kExitFailed;
  }
  short_lives_ = SystemTime().Now() - started_ < kShortLife ? short_lives_ + 1 : 0;
  if (short_lives_ > kShortLivesMax) {
    console_.err(fmt::format(
        "{}, as {} before it were within moments of their start; giving up. Servers and workers "
        "end themselves after fleet.orphan_grace_s; psctl resume {} goes on\n",
        killed,
        kShortLivesMax,
        Printable(run_->paths.root)));
    return kExitFailed;
  }
  console_.err(killed + "; another one goes on\n");
  return std::nullopt;
}

/// In the command's process, which waits for the run of `supervisor` to listen.
int AwaitReady(pid_t supervisor, int ready, const Console& console) {
  for (const int number : kStopSignals) {
    ::signal(number, SIG_IGN);  // the supervisor hears the terminal's, and ends
  }
  std::string root;
  char text[PATH_MAX];
  ssize_t n = 0;
  while ((n = ::read(ready, text, sizeof(text))) > 0 || (n < 0 && errno == EINTR)) {
    root.append(text, n > 0 ? static_cast<size_t>(n) : 0);
  }
  if (root.empty()) {
    int wait_status = 0;
    while (::waitpid(supervisor, &wait_status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : kExitFailed;
  }
  const std::string name = Printable(BaseName(root));
  console.out(fmt::format(
      "{0} runs\n"
      "psctl attach {0}    shows how it goes\n"
      "psctl status {0}    tells once\n"
      "psctl stop {0}      ends it after the steps in hand\n"
      "its output is in {1}\n",
      name,
      Printable(RunPaths{root}.run_log())));
  return kExitOk;
}

}  // namespace

void AcceptStopSignals() {
  sigset_t stops;
  ::sigemptyset(&stops);
  AddStopSignals(&stops);
  ::sigprocmask(SIG_UNBLOCK, &stops, nullptr);
}

Status SupervisorLink::TellRun(const RunDirectory& directory) {
  if (!socket_.is_open()) {
    return Status::Ok();
  }
  if (is_detached_) {
    PS_TRY(MoveOutputTo(directory.paths().run_log()));
  }
  return SendRun(socket_.get(), directory.paths().root, directory.lock().fd());
}

int Supervise(const CoordinatorProcess& process, bool is_detached, const Console& console) {
  if (!is_detached) {
    return Supervisor(process, console).Run();
  }
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    return Fail(console, Status::Io(fmt::format("pipe: {}", std::strerror(errno))));
  }
  UniqueFd ready(ends[0]);
  UniqueFd tell(ends[1]);
  const pid_t supervisor = ::fork();
  if (supervisor < 0) {
    return Fail(console, Status::Io(fmt::format("fork: {}", std::strerror(errno))));
  }
  if (supervisor == 0) {
    ready.Reset();
    return Supervisor(process, console, std::move(tell)).Run();
  }
  tell.Reset();
  return AwaitReady(supervisor, ready.get(), console);
}

}  // namespace ps::run
