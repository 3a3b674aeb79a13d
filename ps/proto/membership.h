#pragma once

#include "ps/proto/messages.h"

namespace ps::proto {

/// Brings `all`, a membership of all, up to date with a later one: of all, or of the changes since
/// a generation that `all` is not older than.
void ApplyMembership(const Membership& later, Membership* all);

}  // namespace ps::proto
