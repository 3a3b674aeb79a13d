#pragma once

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "ps/base/status.h"

namespace ps::provisioner {

// What other systems claim, and what comes out here.

/// Which of two figures is the better one.
enum class Better : unsigned char {
  kHigher,
  kLower,
  kNearer,  // to the published one: a figure that is to be reproduced
};

/// One line of the table of claims.
struct Claim {
  static constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

  std::string seed = {};     // one of ClaimSeeds()
  bool is_headline = false;  // what the system is known for
  std::string trace = {};    // of the user's, that it is checked on; else empty
  std::string text = {};     // what is claimed, one line
  double published = kNone;  // kNone: no figure was published
  std::string unit = {};     // " %", " x", " USD"
  int digits = 2;            // behind the point, of both figures
  Better better = Better::kHigher;
  double equal_within = 0;   // figures that differ by this share of the published one are equal
  double recorded = kNone;   // ours when the claim was written; kNone: of a trace of the user's
  std::string why_not = {};  // it can't be checked, because; else empty
  std::string how = {};      // what ours is made of, one line
  std::string command = {};  // that shows it by itself; empty: psctl claims SEED
  std::function<Result<double>()> ours = {};  // null where it can't be checked
};

enum class ClaimVerdict : unsigned char { kBetter, kEqual, kWorse, kNotChecked };

/// "better", "equal", "worse", "can't be checked".
std::string VerdictName(ClaimVerdict verdict);

struct CheckedClaim {
  Claim claim;
  double ours = Claim::kNone;
  ClaimVerdict verdict = ClaimVerdict::kNotChecked;
  bool is_worse_than_recorded = false;
};

/// Computes what comes out here. Figures are compared as they are printed: what a unit of the last
/// digit hides is no difference. Errors: those of `claim.ours`.
Result<CheckedClaim> CheckClaim(const Claim& claim);

/// "68.1 %"; "-" for kNone.
std::string FigureText(const Claim& claim, double figure);

}  // namespace ps::provisioner
