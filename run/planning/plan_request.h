#pragma once

#include <string>
#include <vector>

#include "ps/proto/fleet_policy.h"
#include "run/planning/planning_files.h"
#include "run/planning/run_facts.h"
#include "run/planning/spot_traces.h"

namespace ps::run {

/// What plan and predict have in common.
struct PlanningCommand {
  std::string job_path;  // empty: whatever the profile is of
  std::string profile_path = kDefaultProfile;
  std::string catalog_path;                // empty: the default catalog
  std::string launcher;                    // of the workers; empty: the job's, if there is one
  std::vector<proto::MarketPrice> prices;  // of now, instead of the catalog's
  double loss = 0;                         // 0: none given, which only predict allows
  std::string market;                      // empty: spot, or on-demand where the strategy is
  std::string speed_model = "queue";
  double contention_margin = 0;  // percent
  double confidence = 0.9;
  bool is_json = false;
  int local_steps = 0;     // that it is for; 0: those of the job, or else of the profile
  int workers_listed = 0;  // that have the run's learning rate (JobModelOptions)
  // Other bytes than the profile's; empty, 0: its own.
  std::string push;                      // encoding of pushes, as in "int8"
  std::string pull;                      // of pulls
  double push_factor = 0;                // of the profile's bytes of a push
  bool has_unseen = false;               // types that nobody measured are reckoned
  std::vector<std::string> learn_from;   // profiles of other jobs, for that
  std::vector<std::string> measured_on;  // "local=V100": what the profile's types are
  std::vector<std::string> notes;        // that the plan's begin with
};

/// `psctl plan`.
struct PlanCommand {
  PlanningCommand common;
  std::string within;
  bool has_within = false;
  double budget_usd = 0;
  bool has_budget = false;
  double usd_per_hour = 0;  // of the strategy deepvm, of throughput-per-hour
  std::string objective = "cost";
  std::string start_up;  // of a machine in the place of a revoked one; empty: the catalog's, or 2m
  double detect_s = 0;   // until the run knows of a silent loss
  bool ignores_revocations = false;  // when it chooses
  std::string lifetimes;             // published ones; empty: the catalog's alone
  // For the strategy parcae: the counts of machines until now, one of the two.
  std::string trace_path;
  std::string history;      // "12,12,11,13", an interval each
  std::string unit = "ms";  // of the trace's times
  std::string gaps;         // hold, none, cut: of times in which nobody polled; empty: an error
  std::string at;           // now, in the trace; empty: its end
  std::string interval = "60s";         // from one count to the next
  std::vector<std::string> capacities;  // TYPE[@ZONE]=TRACE: spot machines that could be had
  std::vector<SpotTrace> spot_traces;   // these, as they were read
  std::vector<std::string> types;       // empty: all
  std::vector<std::string> without;     // workers and servers that are not used
  std::vector<std::string> quotas;
  std::vector<std::string> vcpu_quotas;       // by family
  std::vector<std::string> on_demand_quotas;  // beside spot machines of the type
  std::vector<std::string> held;
  bool drops_held = false;  // a plan need not keep them
  std::string takeover;
  bool has_takeover = false;
  // For a run on its way.
  double from_loss = 0;
  bool has_from_loss = false;
  double steps_done = 0;
  bool has_steps_done = false;
  std::vector<std::string> done_by;  // the fleet that made those steps; empty: the held one
  std::string run;                   // that all the above is of, where it is not said; empty: none
  std::vector<MeasuredStep> measured;  // in that run
  std::vector<std::string> servers;
  bool servers_run = false;  // they are the run's: whether the job fits there is no question
  std::string strategy = "exact";
  // To choose among: up to so many local steps, and these encodings of pushes and pulls. 0, empty:
  // the job's, or those of common.
  int local_steps_max = 0;
  std::vector<std::string> pushes;
  std::vector<std::string> pulls;
  std::string effort;
  bool has_effort = false;
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

}  // namespace ps::run
