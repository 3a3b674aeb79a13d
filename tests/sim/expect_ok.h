#pragma once

#include <gtest/gtest.h>

#include <string>

#include "tests/sim/cluster.h"

namespace ps::sim {

/// The last lines of a failed run's log.
inline std::string Tail(const std::string& log, size_t bytes) {
  return log.size() <= bytes ? log : log.substr(log.size() - bytes);
}

/// The log of a run is made only when there is something to see.
inline void ExpectOk(Scenario scenario) {
  scenario.log_detail = LogDetail::kNone;
  if (!Simulate(scenario).ok()) {
    scenario.log_detail = LogDetail::kEvents;
    const Outcome outcome = Simulate(scenario);
    std::string text = "to repeat a random scenario: tests/sim_replay " +
                       std::to_string(scenario.seed) + "\n" + Describe(scenario) + "\n";
    text += outcome.is_finished ? "finished: " : "not finished: ";
    text += outcome.status.ToString() + " after " + std::to_string(Seconds(outcome.virtual_time)) +
            " virtual seconds\n";
    for (const std::string& violation : outcome.violations) {
      text += "violation: " + violation + "\n";
    }
    ADD_FAILURE() << text << Tail(outcome.log, 6000);
  }
}

/// How often the text is in a log.
inline size_t CountIn(const std::string& log, std::string_view text) {
  size_t count = 0;
  for (size_t at = 0; (at = log.find(text, at)) != std::string::npos; at += text.size()) {
    ++count;
  }
  return count;
}

inline Scenario Quiet(proto::Mode mode) {
  Scenario scenario;
  scenario.mode = mode;
  return scenario;
}

}  // namespace ps::sim
