#include "run/report/progress.h"

#include <fmt/core.h>
#include <sys/ioctl.h>

#include <algorithm>

#include "ps/base/text.h"
#include "ps/base/utf8.h"
#include "run/report/metric_text.h"
#include "run/report/run_events.h"
#include "run/report/summary.h"
#include "run/report/tables.h"

namespace ps::run {
namespace {

constexpr size_t kBarMax = 40;
constexpr size_t kBarMin = 10;
constexpr size_t kNameMax = 24;
constexpr std::string_view kGap = "  ";

double FractionDone(const proto::JobStatus& status) {
  if (status.samples_total == 0) {
    return 0;
  }
  return std::min(
      1.0, static_cast<double>(status.samples_counted) / static_cast<double>(status.samples_total));
}

/// "[=====>    ]", `width` characters with its brackets.
std::string Bar(double fraction, size_t width) {
  const size_t inner = width - 2;
  const auto filled = static_cast<size_t>(fraction * static_cast<double>(inner));
  std::string bar(filled, '=');
  if (filled < inner && filled > 0) {
    bar.back() = '>';
  }
  return "[" + bar + std::string(inner - filled, ' ') + "]";
}

struct Part {
  std::string text;
  int rank = 0;  // the highest goes first when there is no room
};

/// The parts that fit, in their order, two spaces between.
std::string Fit(std::vector<Part> parts, size_t width) {
  std::erase_if(parts, [](const Part& part) { return part.text.empty(); });
  const auto length = [&] {
    size_t n = 0;
    for (const Part& part : parts) {
      n += TextWidth(part.text) + (n > 0 ? kGap.size() : 0);
    }
    return n;
  };
  while (parts.size() > 1 && length() > width) {
    parts.erase(std::max_element(
        parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.rank < b.rank; }));
  }
  std::string line;
  for (const Part& part : parts) {
    line += (line.empty() ? "" : std::string(kGap)) + part.text;
  }
  return Clip(line, width);
}

std::string SamplesText(const proto::JobStatus& status) {
  return FormatCount(status.samples_counted) + "/" + FormatCount(status.samples_total) + " samples";
}

std::string EpochText(const proto::JobStatus& status) {
  return fmt::format("epoch {}/{}", EpochNow(status), status.epochs);
}

std::string TimeLeftText(const proto::JobStatus& status) {
  const bool is_known =
      status.eta_s >= 0 && status.state == proto::RunState::kTraining && status.steps_counted > 0;
  return is_known ? FormatDuration(status.eta_s) + " left" : "";
}

std::string TestText(const proto::JobStatus& status) {
  return status.evaluations.empty()
             ? ""
             : fmt::format(
                   "{} {}{}",
                   EvaluatedOn(status),
                   proto::IsShare(status.metric) ? "" : "r2 ",
                   FormatMetric(status.metric, status.evaluations.back().accuracy));
}

std::string LossText(const proto::JobStatus& status) {
  return status.steps_counted == 0 ? "" : "loss " + FormatLoss(status.train_loss);
}

std::string AccuracyText(const proto::JobStatus& status) {
  const bool is_told = status.train_accuracy > 0;  // programs of others may tell none
  return status.steps_counted == 0 || !is_told || !proto::IsShare(status.metric)
             ? ""
             : "acc " + FormatPercent(status.train_accuracy);
}

/// The state, where it is not the usual one.
std::string StateText(const proto::JobStatus& status) {
  if (status.state == proto::RunState::kTraining) {
    return "";
  }
  const std::string state(proto::StateName(status.state));
  return status.detail.empty() ? state : state + ": " + Printable(status.detail);
}

}  // namespace

std::vector<std::string> RenderProgressBlock(const proto::JobStatus& status, size_t width) {
  const double fraction = FractionDone(status);
  const std::string name = Clip(Printable(status.name), std::min(kNameMax, width));
  std::vector<Part> first{
      {name, 2},
      {Bar(fraction, kBarMin), 3},
      {FormatPercent(fraction), 0},
      {EpochText(status), 1},
      {TimeLeftText(status), 1}};
  std::string line = Fit(first, width);
  const size_t bar = line.find('[');
  if (bar != std::string::npos && TextWidth(line) < width) {
    const size_t room = std::min(kBarMax, kBarMin + width - TextWidth(line));
    first[1].text = Bar(fraction, room);
    line = Fit(first, width);
  }
  const std::string state = StateText(status);
  const std::string second = !state.empty() ? Clip(state, width)
                                            : Fit({{SamplesText(status), 4},
                                                   {FormatRate(status.samples_per_s) + "/s", 0},
                                                   {LossText(status), 1},
                                                   {AccuracyText(status), 3},
                                                   {TestText(status), 2},
                                                   {"workers " + WorkersText(status), 1}},
                                                  width);
  return {line, second};
}

std::string RenderProgressLine(const proto::JobStatus& status) {
  if (status.state == proto::RunState::kStarting) {
    return StateText(status);
  }
  constexpr size_t kNoLimit = 10000;
  return Fit(
      {{FormatDuration(status.elapsed_s), 0},
       {FormatPercent(FractionDone(status)), 0},
       {EpochText(status), 0},
       {SamplesText(status), 0},
       {FormatRate(status.samples_per_s) + "/s", 0},
       {LossText(status), 0},
       {AccuracyText(status), 0},
       {TestText(status), 0},
       {"workers " + WorkersText(status), 0},
       {TimeLeftText(status), 0},
       {StateText(status), 0}},
      kNoLimit);
}

std::string ProgressPrinter::Erase() const {
  if (block_.empty()) {
    return "";
  }
  // A terminal that became narrower has wrapped the lines since.
  const size_t width = std::max<size_t>(options_.terminal_width(), 1);
  size_t rows = 0;
  for (const std::string& line : block_) {
    rows += std::max<size_t>((TextWidth(line) + width - 1) / width, 1);
  }
  std::string text = "\r\x1b[2K";  // what the terminal echoed meanwhile, such as ^C
  for (size_t i = 0; i < rows; ++i) {
    text += "\x1b[1A\x1b[2K";  // one line up, clear it
  }
  return text;
}

std::string ProgressPrinter::Draw() const {
  std::string text;
  for (const std::string& line : block_) {
    text += line + "\n";
  }
  return text;
}

void ProgressPrinter::Update(
    const proto::JobStatus& status, const std::vector<std::string>& events, TimePoint now) {
  std::string text;
  if (options_.is_terminal) {
    // One column is left free: a full line makes some terminals wrap.
    const size_t width = std::max<size_t>(options_.terminal_width(), 2) - 1;
    text = Erase();
    for (const std::string& event : events) {
      text += event + "\n";
    }
    block_ = RenderProgressBlock(status, width);
    text += Draw();
  } else {
    for (const std::string& event : events) {
      text += event + "\n";
    }
    if (!has_line_ || now - last_line_ >= options_.line_period) {
      text += RenderProgressLine(status) + "\n";
      last_line_ = now;
      has_line_ = true;
    }
  }
  if (!text.empty()) {
    options_.write(text);
  }
}

void ProgressPrinter::Say(std::string_view line) {
  const std::string text = Erase() + std::string(line) + "\n" + Draw();
  options_.write(text);
}

void ProgressPrinter::Finish() {
  if (!block_.empty()) {
    options_.write(Erase());
    block_.clear();
  }
}

size_t TerminalWidth(int fd) {
  winsize size{};
  if (::ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) {
    return 80;
  }
  return size.ws_col;
}

}  // namespace ps::run
