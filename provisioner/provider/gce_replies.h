#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "provisioner/provider/provider.h"
#include "ps/base/status.h"
#include "ps/json/json_value.h"

namespace ps::provisioner {

// What Compute Engine answers. Takes any JSON.

/// The text at a path; empty where there is none.
std::string GceText(const JsonValue& json, std::string_view path);

/// An instance. Its token is its name. `digest`: of the request that it was made for. Errors:
/// kCorruption (no name, zone or state).
struct GceMachine {
  Machine machine;
  std::string digest;
};

Result<GceMachine> ReadGceInstance(const JsonValue& json);

/// The instances of a page of an aggregated list. Errors: kCorruption; kUnavailable when a zone
/// could not be reached, as its machines are missing then.
Result<std::vector<GceMachine>> ReadGceInstances(const JsonValue& page);

/// The ids of the machines that these operations took back.
std::vector<std::string> ReadGcePreemptions(const JsonValue& page);

}  // namespace ps::provisioner
