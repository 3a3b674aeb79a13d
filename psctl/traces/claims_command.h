#pragma once

#include <string>
#include <vector>

#include "psctl/cli/command.h"

namespace ps::psctl {

/// `psctl claims`.
struct ClaimsCommand {
  std::string seed;                 // whose claims; empty: all
  std::vector<std::string> traces;  // Parcae's claims on these, too
  std::string unit = "ms";          // of the traces' times: ms, s or h
  std::string gaps;                 // hold, none, cut: of times in which nobody polled
  bool is_json = false;
};

extern const Command kClaims;

}  // namespace ps::psctl
