#pragma once

#include <string>
#include <string_view>

#include "ps/base/status.h"
#include "ps/proto/files/profile.h"

namespace ps::provisioner {

// How a job exchanges with its servers, where it is not as it was profiled. Pure.

/// An encoding as a job names it: "topk:0.01" for "topk:0.0100". Errors: kInvalidArgument, with
/// what there is.
Result<std::string> EncodingName(std::string_view text);

/// What one exchange of the profile's job moves when values travel in an encoding, as `exchange` of
/// a job names it: "int8", "topk:0.01". Errors: kInvalidArgument, with what there is.
Result<double> PushBytes(const proto::JobProfile& profile, std::string_view encoding);
Result<double> PullBytes(const proto::JobProfile& profile, std::string_view encoding);

/// Whether pulls in this encoding are differences to what the worker holds, of which servers keep a
/// copy. False for what is no encoding.
bool PullsDifferences(std::string_view encoding);

/// What a prediction changes; as profiled where nothing is said.
struct ExchangeChange {
  int local_steps = 0;    // minibatches between two exchanges; 0: the profile's
  double push_bytes = 0;  // of one exchange; 0: the profile's
  double pull_bytes = 0;
  double samples = 1;            // to a loss, as a multiple of what the profile's curves tell
  double samples_deviation = 0;  // of its log, where nobody measured it
  int samples_workers = 0;       // that it was measured with; 0: it holds for any number
  // Most that a server host keeps of what workers hold; 0: pulls are no differences.
  double held_bytes_max = 0;
};

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
