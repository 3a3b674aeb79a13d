#pragma once

#include <string_view>

#include "ps/base/status.h"
#include "ps/proto/files/profile.h"

namespace ps::provisioner {

// How a job exchanges with its servers, where it is not as it was profiled. Pure.

enum class Direction : unsigned char { kPush, kPull };

/// Bytes of one value on the wire: "f32" 4, "bf16" 2, "int8" 1 and "int4" 0.5 with a scale of 4
/// bytes for each 256 values, "topk:0.01" 8 for each value that is sent (its place too). Pulls know
/// "f32", "bf16" and "int8". Errors: kInvalidArgument, with what there is.
Result<double> BytesPerValue(std::string_view encoding, Direction direction);

/// What a prediction changes; as profiled where nothing is said.
struct ExchangeChange {
  int local_steps = 0;    // minibatches between two exchanges; 0: the profile's
  double push_bytes = 0;  // of one exchange; 0: the profile's
  double pull_bytes = 0;
  double samples = 1;  // to a loss, as a multiple of what the profile's curves tell
};

/// What one exchange moves when each value takes so many bytes.
double ExchangeBytes(const proto::JobProfile& profile, double bytes_per_value);

/// Bytes of one exchange either way, and minibatches between two of them.
struct Exchange {
  int local_steps = 1;
  double push_bytes = 0;
  double pull_bytes = 0;
  double overlap = 0;  // share of communication that computation hides
  // Single minibatches were profiled, exchanged while others were computed; this computes several
  // and then exchanges.
  bool is_longer = false;
};

/// Rounds of several minibatches are computed, then exchanged: nothing overlaps.
Exchange ExchangeOf(const proto::JobProfile& profile, const ExchangeChange& change);

}  // namespace ps::provisioner
