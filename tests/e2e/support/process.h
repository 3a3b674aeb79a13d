#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/e2e/support/poll.h"

namespace ps::e2e {

/// "" when there is no such file.
std::string ReadText(const std::string& path);
void WriteText(const std::string& path, const std::string& text);

/// How a process ended, comparable in one EXPECT_EQ.
struct ProcessEnd {
  int code = 0;    // exit code, when no signal ended it
  int signal = 0;  // that ended it

  friend bool operator==(const ProcessEnd&, const ProcessEnd&) = default;
};

std::ostream& operator<<(std::ostream& out, const ProcessEnd& end);

/// A name in the build's bin/ as a path; a path stays.
std::string ProgramPath(const std::string& program);

/// A program that the test starts: in a process group of its own, as a shell would; stdin is
/// /dev/null; stdout and stderr go to files. It does not outlive the test.
class Process {
 public:
  struct Options {
    std::string program;                 // a name in the build's bin/, or a path
    std::vector<std::string> arguments;  // without the program's name
    std::string directory = "/";         // working directory
    std::string output_stem;             // <stem>.out and <stem>.err are written
    uint64_t file_bytes_max = 0;         // no file grows beyond this; 0: no limit
  };

  explicit Process(const Options& options);
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  /// Kills it when it still runs.
  ~Process();

  pid_t pid() const { return pid_; }

  bool IsRunning() { return !Poll().has_value(); }

  /// How it ended, if it did.
  std::optional<ProcessEnd> Poll();
  /// Nothing when it still runs after the deadline.
  std::optional<ProcessEnd> Wait(Duration deadline = kPatience);

  void Signal(int number) const;
  /// As the terminal does it on Ctrl-C: the whole process group.
  void SignalGroup(int number) const;

  std::string Out() const { return ReadText(stem_ + ".out"); }

  std::string Err() const { return ReadText(stem_ + ".err"); }

 private:
  std::string stem_;
  pid_t pid_ = 0;
  std::optional<ProcessEnd> end_;
};

/// A run of a program to its end. A program that does not end is a test failure.
struct Output {
  ProcessEnd end;
  std::string out;
  std::string err;
};

Output RunToEnd(const Process::Options& options, Duration deadline = kPatience);

/// True until it is gone; a zombie is gone.
bool IsAlive(int64_t pid);

/// 0 when it is gone.
int64_t ParentOf(int64_t pid);

/// The words of it, with blanks between; "" when it is gone or a zombie.
std::string CommandLine(int64_t pid);

/// Processes, zombies left out, with `text` in their command line: who belongs to a folder.
std::vector<int64_t> ProcessesNaming(const std::string& text);

}  // namespace ps::e2e
