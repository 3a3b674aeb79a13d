#include "run/probe_log.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "ps/base/file.h"
#include "run/directory/event_log.h"

namespace ps::run {
namespace {

constexpr size_t kTensorsMax = 100000;  // of profile.fbs
constexpr double kSecondsMax = 1e6;     // likewise
constexpr double kProbeCountMax = 1e9;

/// The number of a field within [0, most]; nothing when there is none.
std::optional<double> NumberOf(const LogLine& line, std::string_view key, double most) {
  const std::string_view text = line.Get(key);
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  return is_number && number >= 0 && number <= most ? std::optional(number) : std::nullopt;
}

/// The lines of a worker's probe, one after the other.
class ProbeReader {
 public:
  ProbeReader(const proto::WorkerGroup& group, proto::JobProfile* profile)
      : group_(group), profile_(profile) {}

  void Read(const LogLine& line) {
    if (line.event == "probe_tensor") {
      ReadTensor(line);
    } else if (line.event == "probe_step") {
      ReadStep(line);
    } else if (line.event == "probe_link") {
      ReadLink(line);
    }
  }

 private:
  void ReadTensor(const LogLine& line) {
    const auto number = NumberOf(line, "tensor", kTensorsMax - 1);
    const auto bytes = NumberOf(line, "bytes", 1e15);
    const auto ready = NumberOf(line, "ready", 1);
    if (number == 0.0) {
      tensors_.clear();  // another probe
    }
    if (number && bytes && ready && tensors_.size() < kTensorsMax) {
      tensors_.push_back({*bytes, *ready});
    }
  }

  void ReadStep(const LogLine& line) {
    proto::StepTimes times;
    const auto minibatch = NumberOf(line, "minibatch", kProbeCountMax);
    const auto steps = NumberOf(line, "steps", kProbeCountMax);
    const auto forward_s = NumberOf(line, "forward_s", kSecondsMax);
    const auto backward_s = NumberOf(line, "backward_s", kSecondsMax);
    times.tensors = std::exchange(tensors_, {});
    if (!minibatch || !steps || !forward_s || !backward_s || *minibatch < 1 || *steps < 1 ||
        *backward_s <= 0 || times.tensors.empty()) {
      return;
    }
    times.instance_type = group_.type;
    times.minibatch = static_cast<int>(*minibatch);
    times.forward_s = *forward_s;
    times.backward_s = *backward_s;
    times.steps = static_cast<int>(*steps);
    std::ranges::sort(times.tensors, {}, [](const proto::TensorReady& tensor) {
      return std::pair(tensor.ready, tensor.bytes);
    });
    std::erase_if(profile_->steps, [&](const proto::StepTimes& known) {
      return known.instance_type == times.instance_type && known.minibatch == times.minibatch;
    });
    profile_->steps.push_back(std::move(times));
  }

  void ReadLink(const LogLine& line) {
    const auto exchanges = NumberOf(line, "exchanges", kProbeCountMax);
    const auto push = NumberOf(line, "push_bytes_per_s", 1e18);
    const auto pull = NumberOf(line, "pull_bytes_per_s", 1e18);
    const auto round_trip_s = NumberOf(line, "round_trip_s", kSecondsMax);
    if (exchanges && push && pull && round_trip_s && *exchanges >= 1 && *push > 0 && *pull > 0) {
      profile_->link = {*push, *pull, *round_trip_s, static_cast<int>(*exchanges)};
    }
  }

  const proto::WorkerGroup& group_;
  proto::JobProfile* const profile_;
  std::vector<proto::TensorReady> tensors_;
};

}  // namespace

void AddProbe(std::string_view log, const proto::WorkerGroup& group, proto::JobProfile* profile) {
  ProbeReader reader(group, profile);
  while (!log.empty()) {
    const std::string_view line = log.substr(0, log.find('\n'));
    log.remove_prefix(std::min(line.size() + 1, log.size()));
    if (const std::optional<LogLine> parsed = ParseLogLine(line)) {
      reader.Read(*parsed);
    }
  }
}

void AddProbes(
    const std::string& folder,
    std::span<const proto::WorkerGroup> seats,
    proto::JobProfile* profile) {
  // The first of a kind comes last, and stays.
  for (size_t seat = seats.size(); seat-- > 0;) {
    if (const Result<std::string> log = ReadFile(fmt::format("{}/worker{}.log", folder, seat));
        log.ok()) {
      AddProbe(*log, seats[seat], profile);
    }
  }
  if (seats.size() != 1) {
    profile->link = {};
  }
}

}  // namespace ps::run
