#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "ps/base/ids.h"

namespace ps::crypto {

// A worker process shows a token of its own, which says its seat and which launch it is, and is
// signed with the run's token: "w3.<16 hex digits>.<HMAC-SHA256 in hex>". Whoever has the run's
// token can check it, nobody can make another seat's or the run's own of it.

/// The token of a new launch for the seat; no two are equal.
std::string MakeWorkerToken(std::string_view run_token, WorkerId seat);

/// The seat that a token is for; nullopt unless it was made with this run's token.
std::optional<WorkerId> CheckWorkerToken(std::string_view run_token, std::string_view token);

/// The seat that a checked token is for; nullopt for the run's own, which is for any.
std::optional<WorkerId> SeatOfToken(std::string_view token);

/// Takes time that depends on the lengths alone.
bool EqualInConstantTime(std::string_view a, std::string_view b);

}  // namespace ps::crypto
