#include "tests/e2e/support/process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace ps::e2e {
namespace {

namespace fs = std::filesystem;

/// All that the child needs between fork and exec, made before.
struct ChildPlan {
  std::vector<char*> arguments;
  std::string directory;
  std::string out;
  std::string err;
  uint64_t file_bytes_max = 0;
};

[[noreturn]] void RunChild(const ChildPlan& plan) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (const int number : {SIGINT, SIGHUP}) {
    ::signal(number, SIG_DFL);  // whoever started the tests in the background ignores them
  }
  const int in = ::open("/dev/null", O_RDONLY);
  const int out = ::open(plan.out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  const int err = ::open(plan.err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (in < 0 || out < 0 || err < 0 || ::chdir(plan.directory.c_str()) != 0) {
    ::_exit(126);
  }
  ::dup2(in, STDIN_FILENO);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(err, STDERR_FILENO);
  ::close_range(3, ~0U, 0);
  if (plan.file_bytes_max > 0) {
    // Writes fail instead, which is how a full disk looks.
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{plan.file_bytes_max, plan.file_bytes_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ::execv(plan.arguments.front(), plan.arguments.data());
  ::_exit(127);
}

ProcessEnd EndOf(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    return {0, WTERMSIG(wait_status)};
  }
  return {WEXITSTATUS(wait_status), 0};
}

}  // namespace

std::string ProgramPath(const std::string& program) {
  return program.find('/') == std::string::npos ? std::string(PS_E2E_BIN_DIR) + "/" + program
                                                : program;
}

std::string ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void WriteText(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  EXPECT_TRUE(file.good()) << path;
}

std::ostream& operator<<(std::ostream& out, const ProcessEnd& end) {
  return end.signal != 0 ? out << "signal " << end.signal : out << "exit code " << end.code;
}

Process::Process(const Options& options) : stem_(options.output_stem) {
  std::vector<std::string> words{ProgramPath(options.program)};
  words.insert(words.end(), options.arguments.begin(), options.arguments.end());
  ChildPlan plan{{}, options.directory, stem_ + ".out", stem_ + ".err", options.file_bytes_max};
  for (std::string& word : words) {
    plan.arguments.push_back(word.data());
  }
  plan.arguments.push_back(nullptr);
  pid_ = ::fork();
  EXPECT_GE(pid_, 0) << "fork";
  if (pid_ == 0) {
    RunChild(plan);
  }
  // Both sides do it: whoever signals the group next must find it.
  ::setpgid(pid_, pid_);
}

Process::~Process() {
  if (IsRunning()) {
    Signal(SIGKILL);
    Wait();
  }
}

std::optional<ProcessEnd> Process::Poll() {
  if (!end_.has_value()) {
    int wait_status = 0;
    const pid_t pid = ::waitpid(pid_, &wait_status, WNOHANG);
    if (pid == pid_) {
      end_ = EndOf(wait_status);
    }
  }
  return end_;
}

std::optional<ProcessEnd> Process::Wait(Duration deadline) {
  WaitUntil([this] { return Poll().has_value(); }, deadline);
  return end_;
}

void Process::Signal(int number) const {
  if (!end_.has_value()) {
    ::kill(pid_, number);
  }
}

void Process::SignalGroup(int number) const {
  if (!end_.has_value()) {
    ::kill(-pid_, number);
  }
}

Output RunToEnd(const Process::Options& options, Duration deadline) {
  Process process(options);
  const std::optional<ProcessEnd> end = process.Wait(deadline);
  EXPECT_TRUE(end.has_value()) << options.program << " does not end: " << process.Err();
  return {end.value_or(ProcessEnd{-1, 0}), process.Out(), process.Err()};
}

bool IsAlive(int64_t pid) {
  // "PID (name) S ...": the name may hold anything, so the state is what follows the last ')'.
  const std::string stat = ReadText("/proc/" + std::to_string(pid) + "/stat");
  const size_t name_end = stat.rfind(')');
  return name_end != std::string::npos && stat.size() > name_end + 2 && stat[name_end + 2] != 'Z' &&
         stat[name_end + 2] != 'X';
}

int64_t ParentOf(int64_t pid) {
  const std::string stat = ReadText("/proc/" + std::to_string(pid) + "/stat");
  const size_t name_end = stat.rfind(')');  // then " S PARENT "
  return name_end == std::string::npos ? 0 : std::atoll(stat.c_str() + name_end + 3);
}

std::string CommandLine(int64_t pid) {
  std::string words = ReadText("/proc/" + std::to_string(pid) + "/cmdline");
  std::replace(words.begin(), words.end(), '\0', ' ');
  return words;
}

std::vector<int64_t> ProcessesNaming(const std::string& text) {
  std::vector<int64_t> pids;
  std::error_code error;
  for (fs::directory_iterator it("/proc", error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name.find_first_not_of("0123456789") == std::string::npos &&
        CommandLine(std::stoll(name)).find(text) != std::string::npos) {
      pids.push_back(std::stoll(name));
    }
  }
  return pids;
}

}  // namespace ps::e2e
