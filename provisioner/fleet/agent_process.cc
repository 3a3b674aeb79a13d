#include "provisioner/fleet/agent_process.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "ps/base/text.h"

namespace ps::provisioner {
namespace {

constexpr size_t kOutputMax = 1U << 20;
constexpr size_t kLineMax = 1000;
constexpr int kTold = SIGUSR1;  // the agent itself is gone

/// Blocked from the start, so that none is lost between two looks.
sigset_t AgentSignals() {
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int number : {SIGTERM, SIGCHLD, kTold}) {
    ::sigaddset(&signals, number);
  }
  return signals;
}

[[noreturn]] void EndAs(const AgentEnd& end) {
  if (end.signal != 0) {
    constexpr rlimit kNoCore = {0, 0};
    ::setrlimit(RLIMIT_CORE, &kNoCore);
    ::signal(end.signal, SIG_DFL);
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::raise(end.signal);
    ::_exit(kLostExit);  // it was no signal that ends a process: that is never a success
  }
  ::_exit(end.code);
}

/// Waits for the child that does the work.
[[noreturn]] void Front(pid_t worker, const sigset_t& signals) {
  while (true) {
    const int number = ::sigwaitinfo(&signals, nullptr);
    if (number == SIGTERM) {
      ::kill(worker, SIGTERM);
    }
    int wait_status = 0;
    if (::waitpid(worker, &wait_status, WNOHANG) != worker) {
      continue;
    }
    EndAs(
        WIFSIGNALED(wait_status) ? AgentEnd{0, WTERMSIG(wait_status)}
                                 : AgentEnd{WEXITSTATUS(wait_status), 0});
  }
}

int MillisOf(Duration limit) {
  const auto millis = std::chrono::ceil<std::chrono::milliseconds>(limit).count();
  return static_cast<int>(std::clamp<int64_t>(millis, 0, 1'000'000));
}

struct ExecPlan {
  int in;
  int out;
  int errors;
  int failure;  // gets errno when there is no such program
  pid_t parent;
};

[[noreturn]] void Exec(const std::vector<char*>& words, const ExecPlan& plan) {
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && ::getppid() == plan.parent &&
      ::dup2(plan.in, STDIN_FILENO) >= 0 && ::dup2(plan.out, STDOUT_FILENO) >= 0 &&
      ::dup2(plan.errors, STDERR_FILENO) >= 0) {
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::signal(SIGPIPE, SIG_DFL);
    ::execvp(words[0], words.data());
  }
  const int number = errno;
  [[maybe_unused]] const ssize_t n = ::write(plan.failure, &number, sizeof(number));
  ::_exit(127);
}

}  // namespace

int ExitCodeOf(int code) {
  return code >= 0 && code <= 255 ? code : 1;
}

bool EndsProcess(int signal) {
  constexpr std::array kHarmless = {
      SIGCHLD, SIGCONT, SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU, SIGURG, SIGWINCH};
  return signal > 0 && signal <= SIGSYS && std::ranges::find(kHarmless, signal) == kHarmless.end();
}

AgentWish AgentWishes::Await(Duration limit) const {
  pollfd poll = {.fd = fd(), .events = POLLIN, .revents = 0};
  signalfd_siginfo info{};
  if (::poll(&poll, 1, MillisOf(limit)) != 1 ||
      ::read(fd(), &info, sizeof(info)) != static_cast<ssize_t>(sizeof(info))) {
    return AgentWish::kNone;
  }
  return info.ssi_signo == SIGTERM ? AgentWish::kStop : AgentWish::kKill;
}

void RunAgent(const std::function<AgentEnd(const AgentWishes&)>& work) {
  const sigset_t signals = AgentSignals();
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  const pid_t front = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) {
    AgentSay(fmt::format("fork: {}", std::strerror(errno)));
    ::_exit(kNotStartedExit);
  }
  if (pid > 0) {
    Front(pid, signals);
  }
  ::prctl(PR_SET_PDEATHSIG, kTold);
  if (::getppid() != front) {
    ::raise(kTold);  // it died before the line above took effect
  }
  sigset_t wishes = signals;
  ::sigdelset(&wishes, SIGCHLD);
  EndAs(work(AgentWishes(UniqueFd(::signalfd(-1, &wishes, SFD_CLOEXEC | SFD_NONBLOCK)))));
}

Command::Command(Command&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      in_(std::move(other.in_)),
      out_(std::move(other.out_)),
      errors_(std::move(other.errors_)) {}

Command::~Command() {
  if (pid_ > 0) {
    Kill();
    Await();
  }
}

Result<Command> Command::Start(const std::vector<std::string>& words) {
  int pipes[4][2];
  std::vector<UniqueFd> ends;
  for (auto& pipe : pipes) {
    if (::pipe2(pipe, O_CLOEXEC) != 0) {
      return Status::Io(fmt::format("pipe: {}", std::strerror(errno)));
    }
    ends.emplace_back(pipe[0]);
    ends.emplace_back(pipe[1]);
  }
  std::vector<char*> pointers;
  for (const std::string& word : words) {
    pointers.push_back(const_cast<char*>(word.c_str()));
  }
  pointers.push_back(nullptr);
  Command command;
  const pid_t self = ::getpid();
  command.pid_ = ::fork();
  if (command.pid_ < 0) {
    return Status::Io(fmt::format("fork: {}", std::strerror(errno)));
  }
  if (command.pid_ == 0) {
    Exec(pointers, {pipes[0][0], pipes[1][1], pipes[2][1], pipes[3][1], self});
  }
  command.in_ = std::move(ends[1]);
  command.out_ = std::move(ends[2]);
  command.errors_ = std::move(ends[4]);
  const UniqueFd failure = std::move(ends[6]);
  ends.clear();
  int number = 0;
  ssize_t n = 0;
  do {  // ends at exec
    n = ::read(failure.get(), &number, sizeof(number));
  } while (n < 0 && errno == EINTR);
  if (n == static_cast<ssize_t>(sizeof(number))) {
    const std::string text = fmt::format("cannot run {}: {}", words[0], std::strerror(number));
    return number == ENOENT ? Status::NotFound(text) : Status::Io(text);
  }
  for (const int fd : {command.in(), command.out(), command.errors()}) {
    ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
  }
  return command;
}

void Command::Kill() const {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
  }
}

int Command::Await() {
  int wait_status = 0;
  while (::waitpid(pid_, &wait_status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  return wait_status;
}

bool WriteSome(int fd, std::string_view* text) {
  const ssize_t n = ::write(fd, text->data(), text->size());
  if (n < 0) {
    return errno == EAGAIN || errno == EINTR;
  }
  text->remove_prefix(static_cast<size_t>(n));
  return true;
}

bool ReadSome(int fd, std::string* text) {
  char part[4096];
  const ssize_t n = ::read(fd, part, sizeof(part));
  if (n < 0) {
    return errno == EAGAIN || errno == EINTR;
  }
  text->append(part, static_cast<size_t>(n));
  return n > 0 && text->size() <= kOutputMax;
}

Result<std::string> RunCommand(
    const std::vector<std::string>& words, std::string_view input, Duration limit) {
  PS_ASSIGN(Command command, Command::Start(words));
  const TimePoint by = SystemTime().Now() + limit;
  std::string output;
  std::string errors;
  bool is_open = true;
  bool has_errors = true;
  while (is_open || has_errors) {
    if (input.empty()) {
      command.CloseInput();
    }
    pollfd polls[3] = {
        {.fd = is_open ? command.out() : -1, .events = POLLIN, .revents = 0},
        {.fd = has_errors ? command.errors() : -1, .events = POLLIN, .revents = 0},
        {.fd = command.in(), .events = POLLOUT, .revents = 0}};
    const Duration left = by - SystemTime().Now();
    if (left <= Duration::zero()) {
      return Status::DeadlineExceeded(
          fmt::format("{} did not answer within {:.0f} s", words[0], Seconds(limit)));
    }
    ::poll(polls, 3, MillisOf(left));
    if (polls[2].revents != 0 && !WriteSome(command.in(), &input)) {
      input = {};
    }
    if (polls[0].revents != 0) {
      is_open = ReadSome(command.out(), &output);
    }
    if (polls[1].revents != 0) {
      has_errors = ReadSome(command.errors(), &errors);
    }
  }
  const int wait_status = command.Await();
  if (!WIFEXITED(wait_status) || WEXITSTATUS(wait_status) != 0) {
    return Status::Io(fmt::format(
        "{} failed{}: {}",
        words[0],
        WIFEXITED(wait_status) ? fmt::format(" with code {}", WEXITSTATUS(wait_status)) : "",
        LastLineOf(errors)));
  }
  return output;
}

std::string LastLineOf(std::string_view text) {
  const size_t last = text.find_last_not_of("\r\n ");
  if (last == std::string_view::npos) {
    return "";
  }
  const size_t newline = text.rfind('\n', last);
  const size_t begin = newline == std::string_view::npos ? 0 : newline + 1;
  return Printable(text.substr(begin, std::min(last + 1 - begin, kLineMax)));
}

std::string ShellQuoted(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    text += text.empty() ? "'" : " '";
    for (const char c : word) {
      text += c == '\'' ? std::string("'\\''") : std::string(1, c);
    }
    text += "'";
  }
  return text;
}

void AgentSay(const std::string& text) {
  std::fprintf(stderr, "ps_agent: %s\n", text.c_str());
}

}  // namespace ps::provisioner
