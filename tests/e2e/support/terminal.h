#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "ps/base/unique_fd.h"

namespace ps::e2e {

/// What a terminal of this size shows of a program that draws whole screens. It knows what such a
/// program needs and no more: anything else is a test failure, as is text behind the last column or
/// below the last line. As in xterm, the cursor stays in the last column behind a full line, and
/// what is erased there takes the last character along.
class Screen {
 public:
  Screen(size_t width, size_t height) : lines_(height, std::string(width, ' ')) {}

  void Write(const std::string& text);

  /// Without blanks at their ends.
  std::vector<std::string> lines() const;

 private:
  void Put(char c);
  /// Returns what follows it.
  size_t Control(const std::string& text, size_t begin);

  std::vector<std::string> lines_;
  size_t row_ = 0;
  size_t column_ = 0;  // the width: behind a full line
};

/// A program on a terminal of its own. It does not outlive the test.
class TerminalProcess {
 public:
  TerminalProcess(
      const std::string& program,
      const std::vector<std::string>& arguments,
      size_t width,
      size_t height);
  TerminalProcess(const TerminalProcess&) = delete;
  TerminalProcess& operator=(const TerminalProcess&) = delete;
  ~TerminalProcess();

  /// Shows what the program has drawn since the last call. Each frame is held against what it shows
  /// on an empty screen: a difference is left from the frame before, and a test failure.
  /// Returns the screen's lines; nothing when no frame is whole yet.
  std::vector<std::string> Look();

  void Type(const std::string& keys);

  /// Its exit code, or 128 and the signal's number, as a shell says it; -1 when it does not end.
  int WaitForEnd();

  /// Whether the terminal has lines, echo and signals, as a shell needs it.
  bool IsForShell() const;

  /// Of any of the frames that Look has shown.
  bool has_colours() const { return has_colours_; }

  /// What came after the last whole frame.
  const std::string& rest() const { return pending_; }

 private:
  const size_t width_;
  const size_t height_;
  pid_t pid_ = 0;
  UniqueFd terminal_;
  std::string pending_;
  Screen screen_;
  bool has_frame_ = false;
  bool has_colours_ = false;
};

}  // namespace ps::e2e
