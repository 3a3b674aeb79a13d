#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ps/base/time.h"
#include "ps/proto/messages.h"

namespace ps::run {

/// Two lines for a terminal, each at most `width` characters: what does not fit is left out, the
/// least important first.
std::vector<std::string> RenderProgressBlock(const proto::JobStatus& status, size_t width);

/// One line for a log file.
std::string RenderProgressLine(const proto::JobStatus& status);

/// Shows progress. On a terminal a block is redrawn in place and events scroll above it; otherwise
/// lines are written every few seconds and at events, without control characters.
class ProgressPrinter {
 public:
  struct Options {
    bool is_terminal = false;
    std::function<void(std::string_view)> write;  // a whole update at a time
    std::function<size_t()> terminal_width;       // asked at every redraw
    Duration line_period = std::chrono::seconds(5);
  };

  explicit ProgressPrinter(Options options) : options_(std::move(options)) {}

  /// `events` are shown at once; the progress itself when it is due.
  void Update(
      const proto::JobStatus& status, const std::vector<std::string>& events, TimePoint now);
  /// A line of text that is no event of the job.
  void Say(std::string_view line);
  /// Takes the block away, so that what follows stands alone.
  void Finish();

 private:
  std::string Erase() const;
  std::string Draw() const;

  Options options_;
  std::vector<std::string> block_;  // on the screen now
  TimePoint last_line_{};
  bool has_line_ = false;
};

/// Columns of the terminal behind `fd`; 80 when it does not say.
size_t TerminalWidth(int fd);

}  // namespace ps::run
