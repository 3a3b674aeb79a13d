#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "provisioner/provider/provider.h"

// What Compute Engine is asked, made from requests.

namespace ps::provisioner {

struct GceType {
  std::string machine;      // "n1-standard-4"
  std::string accelerator;  // "nvidia-tesla-t4"; empty: none besides those of the machine
  int accelerators = 0;
};

/// "n1-standard-4", "n1-standard-4+nvidia-tesla-t4:2", or "n1-standard-4-t4" as the catalog calls
/// one with a device; nothing when it is none of them.
std::optional<GceType> ParseGceType(const std::string& type);

/// The instance to be inserted for that pool. Requires: its type is one.
std::string GceInstance(const RentRequest& request, const Pool& pool, const std::string& project);

/// A label with the type of the pool, whose characters labels can't have; and back.
inline constexpr std::string_view kGceTypeTag = "spotps-own-type";
std::string GceTypeLabel(const std::string& type);
std::string GceTypeOf(std::string_view label);

/// RFC 4122, the same for the same request and pool: the service makes one machine for it.
std::string GceRequestId(const RentRequest& request, const Pool& pool);

/// "us-central1" of "us-central1-a".
std::string GceRegion(const std::string& zone);

}  // namespace ps::provisioner
