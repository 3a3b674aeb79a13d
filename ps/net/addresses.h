#pragma once

#include <string>

#include "ps/base/status.h"

namespace ps::net {

/// The address by which this machine reaches `host`, so that `host` reaches this machine by it too
/// unless addresses are translated on the way. Sends nothing; may wait for the resolver. Errors:
/// kUnavailable (no route), kNotFound (no such host); both say what to do.
Result<std::string> AddressTowards(const std::string& host);

/// An address by which other machines may reach this one: that of the default route, else the first
/// of an interface that is up. `otherwise` when it has none but loopback.
std::string OwnAddress(bool is_ipv6, const std::string& otherwise);

/// What is said when `what` ("the coordinator") at `host`:`port` is not reached: the reason, and
/// what to look at.
std::string UnreachableText(
    const std::string& what, const std::string& host, uint32_t port, const Status& why);

}  // namespace ps::net
