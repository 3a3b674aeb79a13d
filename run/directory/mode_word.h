#pragma once

#include <string>

#include "ps/base/status.h"
#include "ps/proto/mode_messages.h"

namespace ps::run {

/// "async", "bsp", "ssp" (the bound that job files have by default) or "ssp:5". Errors:
/// kInvalidArgument saying what is allowed.
Result<proto::ModeChoice> ParseMode(const std::string& word);

}  // namespace ps::run
