#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "provisioner/planner/plan_setup.h"

namespace ps::provisioner {

// When a run with a goal is planned anew, and what of the answer is done. Pure: facts and answers
// in, questions and wishes out; who asks the planner and changes the fleet is another's business.

/// Why the planner is asked. The first that holds, from the top.
enum class ReplanCause : unsigned char {
  kNone,
  kBegin,    // nothing is known of this run yet
  kRevoked,  // workers were lost or told to go
  kScaled,   // somebody wants another fleet
  kPrices,   // the catalog is another one
  kMarket,   // what machines cost has moved
  kSpeed,    // measured outside of what was predicted, for long enough
};

/// "workers were revoked"
std::string_view ReplanCauseText(ReplanCause cause);

struct ReplanSettings {
  double change_every_s = 120;  // between two changes of the fleet at least
  double ask_every_s = 10;      // between two questions
  double patience_s = 30;       // for which a speed has to be off
  double worthwhile = 0.1;      // of the cost, that a change of a fleet in time has to save
};

/// What is known of the run now. Times are those of its training.
struct ReplanFacts {
  double now_s = 0;
  bool has_loss = false;
  std::vector<TypeCount> wanted;   // by type
  std::vector<TypeCount> present;  // likewise, that take part
  uint64_t revocations = 0;        // so far
  uint64_t catalog = 0;            // changes with the catalog's contents
  uint64_t market = 0;             // changes when prices of the market have moved far
  double samples_per_s = 0;
};

/// What the planner says of the goal with what is left.
struct ReplanAnswer {
  std::string infeasible;  // why no fleet meets the goal; empty: `best` does
  std::vector<TypeCount> best;
  double best_usd = 0;
  Range best_speed;           // predicted of `best`, samples/s; 0 and 0: not known
  bool wanted_meets = false;  // the fleet that is wanted now does, too
  double wanted_usd = 0;      // infinity: it never gets there
  Range speed;                // predicted of that, likewise
};

/// What to do, and why. `why` is a line for people, of a decision to stay as well.
struct ReplanWish {
  bool has_change = false;
  std::vector<TypeCount> workers;  // with a change
  std::string why;
};

class Replanner {
 public:
  explicit Replanner(const ReplanSettings& settings) : settings_(settings) {}

  /// Whether the planner is to be asked now, and why. The answer is to be given to Decide, or
  /// Drop called; until then nothing else is asked.
  ReplanCause Look(const ReplanFacts& facts);

  /// `facts`: newer ones than those that the answer was made of.
  ReplanWish Decide(const ReplanFacts& facts, const ReplanAnswer& answer);

  /// There is no answer, for whatever reason: it is asked again after ask_every_s.
  void Drop() { is_asking_ = false; }

 private:
  void Note(const ReplanFacts& facts);
  bool IsSpeedOff(const ReplanFacts& facts);

  static constexpr double kNever = -std::numeric_limits<double>::infinity();

  ReplanSettings settings_;
  ReplanCause cause_ = ReplanCause::kBegin;  // not dealt with yet
  bool is_asking_ = false;
  bool has_seen_ = false;
  std::vector<TypeCount> wanted_;
  uint64_t revocations_ = 0;
  uint64_t catalog_ = 0;
  uint64_t market_ = 0;
  Range speed_;             // predicted of `speed_of_`
  double speed_waits_ = 1;  // in patience_s: twice as long each time that no answer brings it back
  std::vector<TypeCount> speed_of_;
  double off_since_s_ = kNever;
  double asked_s_ = kNever;
  double changed_s_ = kNever;
};

}  // namespace ps::provisioner
