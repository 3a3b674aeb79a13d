#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "psctl/command_line.h"

namespace ps::psctl {

inline constexpr std::string_view kExitCodes =
    "0 done, 1 failed, 2 misused. Results go to stdout, progress and logs to stderr.";

/// The commands with their flags, and what they fill in.
struct CommandParser {
  CLI::App app{
      "Trains models with a parameter server on unequal workers that come and go.", "psctl"};
  CLI::App* train = nullptr;
  CLI::App* check = nullptr;
  CLI::App* model = nullptr;
  CLI::App* runs = nullptr;
  CLI::App* status = nullptr;
  CLI::App* why = nullptr;
  CLI::App* stop = nullptr;
  CLI::App* scale = nullptr;
  CLI::App* drain = nullptr;
  CLI::App* move = nullptr;
  CLI::App* notice = nullptr;
  CLI::App* pause = nullptr;
  CLI::App* go_on = nullptr;
  CLI::App* mode = nullptr;
  CLI::App* top = nullptr;
  CLI::App* events = nullptr;
  CLI::App* attach = nullptr;
  CLI::App* resume = nullptr;
  TrainCommand train_command;
  CheckCommand check_command;
  ModelCommand model_command;
  RunsCommand runs_command;
  std::string runs_older_than;
  StatusCommand status_command;
  WhyCommand why_command;
  StopCommand stop_command;
  NoticeCommand notice_command;
  std::string notice_worker;
  std::string notice_grace;  // drain's, too
  DrainCommand drain_command;
  std::string drain_worker;
  std::vector<std::string> scale_words;
  ScaleCommand scale_command;  // all but its words
  std::string scale_timeout;
  std::string move_tensor;
  std::string move_server;
  ScaleCommand move_command;  // all but these
  PauseCommand pause_command;
  ModeCommand mode_command;
  CLI::App* replay = nullptr;
  ReplayCommand replay_command;
  std::string replay_notice = "2m";
  TopCommand top_command;
  EventsCommand events_command;
  AttachCommand attach_command;
  ResumeCommand resume_command;
  CLI::App* catalog = nullptr;
  CLI::App* catalog_show = nullptr;
  CLI::App* catalog_check = nullptr;
  CLI::App* catalog_import = nullptr;
  CatalogShowCommand catalog_show_command;
  CatalogCheckCommand catalog_check_command;
  CatalogImportCommand catalog_import_command;
  CLI::App* checkpoint = nullptr;
  CheckpointCommand checkpoint_command;
  std::string checkpoint_first = "newest";
  std::string checkpoint_second = "newest";
  CLI::App* plan = nullptr;
  CLI::App* predict = nullptr;
  PlanCommand plan_command;
  PredictCommand predict_command;
  CLI::Option* within = nullptr;
  CLI::Option* takeover = nullptr;
  CLI::Option* from_loss = nullptr;
  CLI::Option* steps_done = nullptr;
  CLI::Option* budget = nullptr;
  CLI::Option* effort = nullptr;
  CLI::App* forecast = nullptr;
  ForecastCommand forecast_command;
  std::string forecast_interval = "60s";
  CLI::App* simulate = nullptr;
  SimulateCommand simulate_command;
  std::string simulate_start_up = "2m";
  std::string simulate_detect;
  std::string simulate_within;
  CLI::App* profile = nullptr;
  ProfileCommand profile_command;
  CLI::App* tune = nullptr;
  TuneCommand tune_command;
  std::vector<std::string> settings;
  CLI::App* help = nullptr;
  std::vector<std::string> help_path;  // of the command that help is asked about
  bool is_man_page = false;
  CLI::App* completion = nullptr;
  std::string completion_shell;

  CommandParser();

  /// What `psctl --help` ends with, a line each.
  static std::vector<std::string> Examples();

 private:
  void AddRuns();
  void AddFleet();
  void AddReplay();
  void AddForecast();
  void AddSimulate();
  void AddHelp();
  void AddProfile();
  void AddTune();
  void AddCatalog();
  void AddCheckpoint();
  void AddPlan();
  void AddPlanChoice();
};

}  // namespace ps::psctl
