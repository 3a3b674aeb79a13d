#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "provisioner/provider/provider.h"

namespace ps::provisioner {

/// The tag in which a provider keeps a machine's token.
inline constexpr std::string_view kTokenTag = "spotps-own-token";
/// And that in which it keeps RequestDigest, where the provider itself compares no requests.
inline constexpr std::string_view kDigestTag = "spotps-own-request";

/// kRefused.
CallEnd Refused(std::string message);

/// What holds for the requests of all providers (provider.h). kRefused, with what is wrong.
CallEnd CheckRequest(const RentRequest& request);

/// 40 hex digits: the same for requests that ask for the same, token aside.
std::string RequestDigest(const RentRequest& request);

/// 20 hex digits, likewise.
std::string SetupDigest(const MachineSetup& setup);

/// Takes the tags that are the provider's own out of those of a machine, and the token from them.
void TakeOwnTags(Machine* machine);

bool HasAllTags(
    const std::map<std::string, std::string>& tags,
    const std::map<std::string, std::string>& wanted);

/// The parts between commas, without blanks around them; none of "".
std::vector<std::string> PartsOf(std::string_view text);

}  // namespace ps::provisioner
