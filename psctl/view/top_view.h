#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "ps/proto/messages.h"

namespace ps::psctl {

/// What `psctl top` shows at one moment.
struct TopSnapshot {
  proto::JobStatus status;     // its events, too
  std::vector<double> losses;  // of training, the newest last
  std::string trouble;         // why the status is an old one; empty: it is not
};

/// The screen: lines of at most `width` characters, at most `height` of them. What does not fit is
/// left out: columns from the right, workers beyond those that fit, old events. `height` 0: as many
/// lines as it takes. Text of others is made printable.
std::vector<std::string> RenderTop(const TopSnapshot& snapshot, size_t width, size_t height);

/// A line of RenderTop for a terminal that has colours: the state of a worker or shard, or of the
/// run (the first line), in green, yellow or red. Nothing else of the line changes.
std::string Coloured(const std::string& line, bool is_first);

/// The losses as a row of `width` characters at most, from "_" (the least) to "@" (the largest);
/// what is not finite is "!".
std::string Sparkline(const std::vector<double>& values, size_t width);

}  // namespace ps::psctl
