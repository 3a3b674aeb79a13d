#pragma once

#include <string>
#include <vector>

#include "psctl/console.h"
#include "psctl/planning_files.h"

namespace ps::psctl {

/// What plan and predict have in common.
struct PlanningCommand {
  std::string job_path;  // empty: whatever the profile is of
  std::string profile_path = kDefaultProfile;
  std::string catalog_path;  // empty: the default catalog
  double loss = 0;           // 0: none given, which only predict allows
  std::string market = "spot";
  std::string speed_model = "queue";
  double confidence = 0.9;
  bool is_json = false;
};

/// `psctl plan`.
struct PlanCommand {
  PlanningCommand common;
  std::string within;  // empty: no limit
  double budget_usd = 0;
  bool has_budget = false;
  std::vector<std::string> quotas;
  std::vector<std::string> held;
  std::string takeover;  // empty: none
  std::vector<std::string> servers;
  std::string strategy = "exact";
  bool explains = false;
  std::string plot_path;
  std::string output;
};

/// `psctl predict`.
struct PredictCommand {
  PlanningCommand common;
  std::vector<std::string> fleet;
  std::string servers;
};

/// Each returns the exit code: 0 a plan, 1 no fleet meets the goal, 2 misused.
int RunPlan(const PlanCommand& command, const Console& console);
int RunPredict(const PredictCommand& command, const Console& console);

}  // namespace ps::psctl
