#pragma once

#include <span>
#include <string>

#include "ps/json/json_writer.h"
#include "ps/proto/files/profile.h"

namespace ps::run {

// How long machines took until their first step counted, by type.

/// "1m 34s until the first step of g4dn.xlarge (12 starts, 9 in 10 within 2m 11s)", several types
/// behind each other; empty: no step of any of them has counted.
std::string StartsText(std::span<const proto::StartSample> starts);

/// The same as a list "starts" of the object that `json` is in.
void AddStarts(std::span<const proto::StartSample> starts, JsonWriter* json);

}  // namespace ps::run
