#include "psctl/command_parser.h"

#include <string_view>

#include "ps/base/text.h"
#include "psctl/view/catalog_view.h"

namespace ps::psctl {
namespace {

constexpr const char* kTraceHelp =
    "TIME,COUNT or TIME,add|remove,NODE lines, JSON, or Parcae's event lists";
constexpr const char* kGapsText =
    "Times that a polled trace lacks: hold, none or cut; refused if absent";

constexpr std::string_view kExamples[] = {
    "psctl train configs/fashion_mnist_cnn.json    run a job; Ctrl-C ends it cleanly",
    "psctl train job.json --set train.epochs=1     change a field for this run",
    "psctl train job.json --print-config           show the config as it would be used",
    "psctl train job.json --json > summary.json    the summary for programs",
    "psctl check job.json                          what train would refuse, without a run",
    "psctl train job.json --detach                 leave the terminal; the run goes on",
    "psctl attach                                  see how it goes; Ctrl-C leaves it running",
    "psctl status                                  running jobs, from any terminal",
    "psctl status runs/mnist-20240131-120000       one run, ended ones too",
    "psctl top                                     watch a run; q leaves it running",
    "psctl events                                  what was decided in a run, and why",
    "psctl runs                                    all runs of this folder",
    "psctl why                                     who waits for whom, since when",
    "psctl stop fashion-mnist-cnn                  end a job after the steps in hand",
    "psctl scale workers=8                         start workers, or let some go, during the run",
    "psctl notice 3 --grace 30s                    tell worker 3 to be gone in 30 s",
    "psctl resume runs/mnist-20240131-120000       go on where it ended",
    "psctl profile job.json                        measure a job on this machine",
    "psctl forecast trace.csv                      how well machines to come can be told",
    "psctl simulate job.json --trace trace.csv     how policies of a fleet would have done",
    "psctl catalog show                            what can be rented, for how much",
    "psctl plan job.json --loss 0.8 --within 40m   the cheapest fleet that gets there",
    "psctl predict job.json --fleet g4dn.4xlarge=2 --ps m5.xlarge",
    "                                              what if",
    "psctl help plan                               all flags of a command",
};

constexpr const char* kJobHelp = "Job name or run directory; not needed when one job is running";

void AddPlanning(CLI::App* sub, PlanningCommand* command) {
  sub->add_option("JOB.json", command->job_path, "Job file, to check that the profile is of it");
  sub->add_option(
         "--profile", command->profile_path, "What is known of the job; ./profile.json if absent")
      ->type_name("FILE");
  sub->add_option("--catalog", command->catalog_path, "Catalog; configs/catalog/aws.json if absent")
      ->type_name("FILE");
  sub->add_option("--loss", command->loss, "Training loss to reach");
  sub->add_option(
      "--market",
      command->market,
      "spot, on-demand, or both: the cheaper one of each type; spot if absent");
  sub->add_option(
      "--speed-model", command->speed_model, "queue, spotdnn, spotdnn-prototype or ideal");
  sub->add_option(
      "--contention-margin",
      command->contention_margin,
      "Percent by which spotdnn lengthens exchanges that contend; its paper uses 1 to 5");
  sub->add_option(
      "--confidence", command->confidence, "At which limits hold and intervals are given; 0.9");
  sub->add_flag("--json", command->is_json, "Print the plan as JSON");
}

}  // namespace

CommandParser::CommandParser() {
  app.set_help_flag("-h,--help", "Show this help");
  app.set_version_flag("--version", "psctl " PS_VERSION, "Show the version");
  app.require_subcommand(1);
  train = app.add_subcommand("train", "Run a job to its end");
  train->add_option("JOB.json", train_command.job_path, "Job file; configs/job.fbs is its manual")
      ->required();
  train
      ->add_option(
          "--set", settings, "Change a field of the job: --set train.epochs=2 train.seed=7")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  train
      ->add_option(
          "--plan", train_command.plan_path, "plan.json: run its fleet here and compare with it")
      ->type_name("FILE");
  train
      ->add_option(
          "--profile",
          train_command.profile_path,
          "Profile to refine with what the run tells; ./profile.json if there is one")
      ->type_name("FILE");
  train->add_flag("--no-refine", train_command.no_refine, "Leave the profile as it is");
  train->add_flag(
      "--probe",
      train_command.is_probed,
      "Time forward, backward, tensors and exchanges, for the run's profile");
  train->add_flag("--json", train_command.is_json, "Print the summary as JSON");
  train->add_flag(
      "--detach", train_command.is_detached, "Return when the run listens; it goes on by itself");
  train->add_flag(
      "--print-config", train_command.only_prints_config, "Print the job as resolved, run nothing");
  AddRuns();
  status = app.add_subcommand("status", "Show workers, servers, staleness and ledger of a job");
  status->add_option("JOB", status_command.job, kJobHelp);
  status->add_flag("--json", status_command.is_json, "Print JSON");
  why = app.add_subcommand("why", "Say who waits for whom, since when, and the times in force");
  why->add_option("JOB", why_command.job, kJobHelp);
  stop = app.add_subcommand("stop", "End a running job after the steps in hand");
  stop->add_option("JOB", stop_command.job, kJobHelp);
  stop->add_flag("--now", stop_command.is_immediate, "End it at once");
  attach = app.add_subcommand("attach", "Show how a running job goes, until it ends");
  attach->add_option("JOB", attach_command.job, kJobHelp);
  attach->add_flag("--json", attach_command.is_json, "Print the summary as JSON");
  resume = app.add_subcommand("resume", "Go on with a run that has ended before it was done");
  resume->add_option("RUN", resume_command.from, "Run, folder with checkpoints, or place of copies")
      ->required();
  resume->add_option("--set", settings, "Change what does not change the model: servers, workers")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  resume->add_flag(
      "--trust-launch",
      resume_command.is_trusted,
      "Start what the job of a copy names: hosts, prefix, words for ssh and sbatch");
  resume->add_flag("--json", resume_command.is_json, "Print the summary as JSON");
  resume->add_flag(
      "--detach", resume_command.is_detached, "Return when the run listens; it goes on by itself");
  AddFleet();
  AddReplay();
  AddForecast();
  AddSimulate();
  AddCatalog();
  AddCheckpoint();
  AddProfile();
  AddTune();
  AddPlan();
  AddHelp();
  std::string footer = "Examples:\n";
  for (const std::string& line : Examples()) {
    footer += "  " + line + "\n";
  }
  app.footer(footer + "\nExit codes: " + std::string(kExitCodes) + "\n");  // last: it is inherited
}

std::vector<std::string> CommandParser::Examples() {
  return {std::begin(kExamples), std::end(kExamples)};
}

void CommandParser::AddRuns() {
  check = app.add_subcommand("check", "Say what train would refuse, without starting anything");
  check->add_option("JOB.json", check_command.job_path, "Job file")->required();
  check->add_option("--set", settings, "Change a field of the job")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  check->add_option("--plan", check_command.plan_path, "plan.json whose fleet is to run")
      ->type_name("FILE");
  model = app.add_subcommand("model", "Show a job's layers, and what a step of a worker costs");
  model->add_option("JOB.json", model_command.job_path, "Job file")->required();
  model->add_option("--set", settings, "Change a field of the job")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  runs = app.add_subcommand("runs", "List the runs of this folder, and those that go on elsewhere");
  CLI::Option* const prune = runs->add_flag(
      "--prune", runs_command.prunes, "Remove what ended runs left here, after saying what");
  runs->add_option(
          "--older-than", runs_older_than, "Of those that ended so long ago alone, as in 7d")
      ->type_name("TIME")
      ->needs(prune);
  runs->add_flag("--models", runs_command.removes_models, "Remove their models, too")->needs(prune);
  runs->add_flag("--dry-run", runs_command.only_looks, "Say what would be removed")->needs(prune);
  runs->add_flag("--yes", runs_command.is_confirmed, "Do not ask")->needs(prune);
  runs->add_flag("--json", runs_command.is_json, "Print JSON")->excludes(prune);
  runs->add_flag("--names", runs_command.only_names, "Print the directories' names alone")
      ->excludes(prune, "--json");
  top = app.add_subcommand("top", "Watch a running job on the whole terminal; q quits");
  top->add_option("JOB", top_command.job, kJobHelp);
  events = app.add_subcommand("events", "List what was decided in a run, and why");
  events->add_option("JOB", events_command.job, kJobHelp);
  events->add_flag("--follow", events_command.is_following, "Go on until the run ends");
  events->add_flag("--json", events_command.is_json, "Print a line of JSON for each");
}

void CommandParser::AddHelp() {
  help = app.add_subcommand("help", "Show what a command does and all its flags");
  help->add_option("COMMAND", help_path, "As in: psctl help catalog show; all if absent");
  help->add_flag("--man", is_man_page, "Print the man page of psctl, for man -l -");
  completion = app.add_subcommand("completion", "Print a script that completes what is typed");
  completion
      ->add_option(
          "bash|zsh",
          completion_shell,
          "The shell, as in: source <(psctl completion bash). Installed packages have it already")
      ->required();
}

void CommandParser::AddProfile() {
  profile = app.add_subcommand("profile", "Measure a job on this machine, for planning");
  profile->add_option("JOB.json", profile_command.job_path, "Job file")->required();
  profile->add_option("--set", settings, "Change a field of the job")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  profile
      ->add_option("-o,--output", profile_command.output, "File to write or refine; profile.json")
      ->type_name("FILE");
  profile->add_option("--type", profile_command.type, "Name of this kind of machine; local");
  profile->add_option("--seconds", profile_command.seconds, "Length of a run; 10");
  profile->add_option(
      "--curve-seconds",
      profile_command.curve_seconds,
      "Length of one worker's loss curve, 0: none; twice --seconds");
  profile->add_option(
      "--curve-repeats",
      profile_command.curve_repeats,
      "Loss curves of each fleet of 2 to 6 workers, whose runs differ; 2");
  profile->add_flag(
      "--instrument",
      profile_command.is_instrumented,
      "Time forward, backward, tensors and link too, and compare two models of a step");
}

void CommandParser::AddTune() {
  tune = app.add_subcommand("tune", "Find the share of a job that has to be trained in bsp");
  tune->add_option("JOB.json", tune_command.job_path, "Job file; it is run from beginning to end")
      ->required();
  tune->add_option("--set", settings, "Change a field of the job")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  tune->add_option(
          "--tolerance",
          tune_command.tolerance_points,
          "Accuracy may be so much below that of bsp alone, in percent; 0.5")
      ->type_name("POINTS");
  tune->add_option(
      "--tries", tune_command.tries, "Shares to try, each half way between two others; 4");
  tune->add_option("--repeats", tune_command.repeats, "Runs of each share, with other seeds; 1");
  tune->add_option(
          "-o,--output", tune_command.output, "File for the job with the share that was found")
      ->type_name("FILE.json");
}

void CommandParser::AddFleet() {
  scale = app.add_subcommand("scale", "Give a running job more or fewer workers or servers");
  scale
      ->add_option(
          "CHANGE",
          scale_words,
          "workers=8, servers=3, workers+=2, or by the type of a group: fast=4,slow=0; servers=2:1 "
          "gives the first of two servers two thirds of the parameters; a word without = is the "
          "job")
      ->required();
  scale->add_flag("--wait", scale_command.is_waiting, "Return when the fleet is as wanted");
  scale->add_option("--timeout", scale_timeout, "Of --wait: fail after so long, as in 5m")
      ->type_name("TIME");
  scale->add_flag(
      "--dry-run", scale_command.is_preview, "Say what it would do to speed and cost, and stop");
  scale->add_option("--profile", scale_command.profile_path, "Of --dry-run: the job's profile");
  scale->add_option("--catalog", scale_command.catalog_path, "Of --dry-run: what is rented");
  move = app.add_subcommand("move", "Give the chunks of a tensor to a server, during the run");
  move->add_option("TENSOR", move_tensor, "Its name, or NAME:CHUNK for one of its chunks")
      ->required();
  move->add_option(
          "SERVER",
          move_server,
          "Number of the server, or any: where the shares of servers want it")
      ->required();
  move->add_option("JOB", move_command.job, kJobHelp);
  move->add_flag("--wait", move_command.is_waiting, "Return when the chunks are there");
  drain = app.add_subcommand("drain", "Let a worker finish its step and leave for good");
  drain->add_option("WORKER", drain_worker, "Its number, as psctl status lists it")->required();
  drain->add_option("JOB", drain_command.job, kJobHelp);
  drain->add_option("--grace", notice_grace, "It is killed when it takes longer; 1m");
  pause = app.add_subcommand("pause", "Hand out no more work; workers wait, a checkpoint is made");
  pause->add_option("JOB", pause_command.job, kJobHelp);
  go_on = app.add_subcommand("continue", "Hand out work again after psctl pause");
  go_on->add_option("JOB", pause_command.job, kJobHelp);
  mode = app.add_subcommand("mode", "Change how far workers may drift apart, while they train");
  mode->add_option("MODE", mode_command.word, "async, ssp, ssp:STALENESS or bsp")->required();
  mode->add_option("JOB", mode_command.job, kJobHelp);
  mode->add_flag("--wait", mode_command.is_waiting, "Return when the job trains in it");
  notice = app.add_subcommand("notice", "Tell a worker or server that its machine is taken back");
  notice->add_option("WORKER", notice_worker, "Its number, as psctl status lists it; s0: server 0")
      ->required();
  notice->add_option("JOB", notice_command.job, kJobHelp);
  notice->add_option(
      "--grace", notice_grace, "Until it has to be gone, as in 30s; it is killed then; 10s");
}

void CommandParser::AddReplay() {
  ReplayScale& part = replay_command.scale;
  replay = app.add_subcommand("replay", "Train while workers come and go as a trace says");
  replay->add_option("TRACE", replay_command.trace_path, kTraceHelp)->required();
  replay->add_option("JOB.json", replay_command.job_path, "Job file")->required();
  replay->add_option("--set", settings, "Change a field of the job")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  replay->add_option("--speedup", part.speedup, "Seconds of the trace in one of the clock; 60");
  replay->add_option("--from-hour", part.from_hours, "Hour of the trace to begin at; 0");
  replay->add_option("--hours", part.hours, "Hours of the trace; all of it if absent");
  replay->add_option(
      "--nodes", part.nodes_max, "Scale counts so that the largest is this; as they are if absent");
  replay->add_option("--unit", replay_command.unit, "Of the lines' times: ms, s or h; ms");
  replay->add_option("--gaps", replay_command.gaps, kGapsText);
  replay->add_option(
      "--notice", replay_notice, "Before a machine goes, in the trace's time; none: no word; 2m");
  replay
      ->add_option(
          "--policy", replay_command.policy, "Which machines are used, as provisioner.policy; all")
      ->type_name("NAME");
  replay->add_option("--plot", replay_command.plot_path, "Plot; replay.svg of the run if absent")
      ->type_name("FILE.svg");
  replay->add_flag("--json", replay_command.is_json, "Print JSON");
}

void CommandParser::AddForecast() {
  forecast = app.add_subcommand("forecast", "Compare predictors of availability on a trace");
  forecast->add_option("TRACE", forecast_command.trace_path, kTraceHelp)->required();
  forecast->add_option("--unit", forecast_command.unit, "Of the lines' times: ms, s or h; ms");
  forecast->add_option("--gaps", forecast_command.gaps, kGapsText);
  forecast->add_option("--interval", forecast_interval, "From one count to the next; 60s");
  forecast->add_option("--horizon", forecast_command.horizons, "Intervals ahead, as in 1,6,12")
      ->delimiter(',')
      ->type_name("N,...")
      ->allow_extra_args(false);
  forecast->add_option("--band", forecast_command.band, "Share of counts within a band; 0.8");
  forecast->add_flag("--json", forecast_command.is_json, "Print JSON");
}

void CommandParser::AddSimulate() {
  SimulateCommand& command = simulate_command;
  simulate =
      app.add_subcommand("simulate", "Judge policies of a fleet on a trace, in virtual time");
  simulate->add_option("JOB.json", command.job_path, "Job file; its first workers' step_ms counts");
  simulate->add_option("--trace", command.trace_path, kTraceHelp)->type_name("FILE")->required();
  simulate->add_option("--unit", command.unit, "Of the lines' times: ms, s or h; ms");
  simulate->add_option("--gaps", command.gaps, kGapsText);
  simulate->add_option("--from-hour", command.part.from_hours, "Hour of the trace to begin at; 0");
  simulate->add_option("--hours", command.part.hours, "Hours of the trace; all if absent");
  simulate->add_option(
      "--nodes", command.part.nodes_max, "Scale counts so that the largest is this");
  simulate
      ->add_option(
          "--policy",
          command.policies,
          "reactive, hold, parcae, standby, deadline, oracle, goal; all if absent")
      ->delimiter(',')
      ->type_name("NAME,...")
      ->allow_extra_args(false);
  simulate->add_option("--profile", command.profile_path, "Speeds by a profile, with --type, --ps")
      ->type_name("FILE");
  simulate->add_option("--catalog", command.catalog_path, "Catalog; configs/catalog/aws.json")
      ->type_name("FILE");
  simulate->add_option("--type", command.type, "Of the workers, as in g4dn.4xlarge");
  simulate->add_option("--ps", command.servers, "Hosts of servers, as in m5.xlarge=1");
  simulate->add_option(
      "--workers", command.workers, "At most; the most machines of the trace if absent");
  simulate->add_option("--start-up", simulate_start_up, "Until a machine's worker takes part; 2m");
  simulate->add_option(
      "--detect", simulate_detect, "Until another one has a revoked worker's seat; at once");
  simulate->add_flag("--notice", command.has_notice, "Revocations are announced: no step is lost");
  simulate->add_option("--samples", command.samples, "To train; to the trace's end if absent");
  simulate->add_option("--within", simulate_within, "Deadline of --samples, as in 6h");
  simulate->add_option("--spot-usd", command.spot_usd, "Price of an hour; the catalog's or job's");
  simulate->add_option("--on-demand-usd", command.on_demand_usd, "The same on demand");
  simulate
      ->add_option("--prices", command.prices_path, "TIME,USD lines: spot prices over the trace")
      ->type_name("FILE");
  simulate->add_option(
      "--egress-usd-per-gb", command.egress_usd_per_gb, "Of what a profile's workers send, fetch");
  simulate->add_option(
      "--launch-failures", command.launch_failures, "Share of spot starts that fail, as in 0.1");
  simulate->add_option("--seeds", command.seeds, "Draws of who goes; the means are shown; 1");
  simulate->add_option(
      "--engine", command.engine, "cores (the production coordinator) or rates; cores if absent");
  simulate->add_option("--log", command.log_path, "The coordinator's log, of one policy and seed")
      ->type_name("FILE");
  simulate->add_option("--plot", command.plot_path, "Plot")->type_name("FILE.svg");
  simulate->add_flag("--json", command.is_json, "Print JSON");
}

void CommandParser::AddCatalog() {
  catalog = app.add_subcommand("catalog", "Show, check or make a list of what can be rented");
  catalog->require_subcommand(1);
  catalog_show = catalog->add_subcommand("show", "Show types, prices and how old they are");
  catalog_show->add_option(
      "FILE,--catalog", catalog_show_command.file, "Catalog; configs/catalog/aws.json if absent");
  catalog_show->add_option("--sort", catalog_show_command.sort, "By " + Join(CatalogSortOrders()));
  catalog_show->add_flag("--json", catalog_show_command.is_json, "Print the catalog as JSON");
  catalog_check = catalog->add_subcommand("check", "Say what is wrong with a catalog");
  catalog_check->add_option("FILE,--catalog", catalog_check_command.file, "Catalog")->required();
  catalog_import = catalog->add_subcommand("import", "Make a catalog of public tables");
  catalog_import
      ->add_option("--from", catalog_import_command.format, "csv: tables; spot-tsv: price history")
      ->required();
  catalog_import
      ->add_option(
          "FILE",
          catalog_import_command.files,
          "FILE or FILE@DATE, the day of its prices. A .json file is a catalog to start from")
      ->required();
  catalog_import->add_option("--provider", catalog_import_command.provider, "Only its types");
  catalog_import->add_option("--region", catalog_import_command.region, "Only its prices");
  catalog_import->add_option(
      "--quota", catalog_import_command.quota, "Of each type for which no file says; 10");
  catalog_import->add_option("-o,--output", catalog_import_command.output, "File; else stdout")
      ->type_name("FILE");
}

void CommandParser::AddCheckpoint() {
  using Action = CheckpointCommand::Action;
  CheckpointCommand& command = checkpoint_command;
  checkpoint = app.add_subcommand("checkpoint", "Look at, check, copy or export checkpoints");
  checkpoint->require_subcommand(1);
  const auto add = [&](const char* name, const char* what, Action action) {
    CLI::App* const added = checkpoint->add_subcommand(name, what);
    added->parse_complete_callback([&command, action] { command.action = action; });
    return added;
  };
  const auto add_where = [&](CLI::App* to) {
    to->add_option(
        "RUN",
        command.where,
        "Run, checkpoint path or place of copies; the running job's if there is only one");
  };
  constexpr const char* kNumberHelp = "Number of a checkpoint, or newest";
  CLI::App* const list = add("list", "List them, with sizes", Action::kList);
  add_where(list);
  list->add_flag("--json", command.is_json, "Print JSON");
  CLI::App* const show = add("show", "Show one, with its shards and tensors", Action::kShow);
  show->add_option("K", checkpoint_first, kNumberHelp)->required();
  add_where(show);
  CLI::App* const verify =
      add("verify", "Read all of the newest; name what is damaged", Action::kVerify);
  add_where(verify);
  verify->add_option("--checkpoint", checkpoint_first, kNumberHelp)->type_name("K");
  verify->add_flag("--all", command.is_all, "Verify every checkpoint");
  verify->add_flag("--json", command.is_json, "Print JSON");
  CLI::App* const diff = add("diff", "Compare the parameters of two", Action::kDiff);
  diff->add_option("K1", checkpoint_first, kNumberHelp)->required();
  diff->add_option("K2", checkpoint_second, kNumberHelp)->required();
  add_where(diff);
  diff->add_flag("--json", command.is_json, "Print JSON");
  CLI::App* const write = add("export", "Write a model as a safetensors file", Action::kExport);
  write->add_option("K", checkpoint_first, kNumberHelp)->required();
  write->add_option("FILE", command.target, "File to write")->required();
  add_where(write);
  write->add_flag("--half", command.is_half, "16-bit floats: half the size");
  CLI::App* const prune = add("prune", "Remove all but the newest", Action::kPrune);
  add_where(prune);
  prune->add_option("--keep", command.keep, "How many to keep")
      ->required()
      ->check(CLI::Range(1, 1'000'000));
  prune->add_flag(
      "--force", command.is_forced, "Also where a copier that was killed has not left the place");
  CLI::App* const copy = add("copy", "Copy those that DEST lacks", Action::kCopy);
  copy->add_option("DEST", command.target, "Checkpoint path, s3://BUCKET/PREFIX or file://FOLDER")
      ->required();
  add_where(copy);
}

/// How a plan is chosen, and where it goes.
void CommandParser::AddPlanChoice() {
  plan->add_option(
          "--servers", plan_command.servers, "Servers to choose among, as in m5.xlarge=1..4")
      ->type_name("TYPE=HOSTS")
      ->allow_extra_args(false);
  plan->add_option(
      "--strategy",
      plan_command.strategy,
      "exact, spotdnn, spotdnn-prototype, exhaustive, ideal, homogeneous, on-demand, deepvm or "
      "parcae");
  plan->add_option(
          "--trace",
          plan_command.trace_path,
          "Of parcae: machines that could be had until now, as psctl forecast reads them")
      ->type_name("TRACE");
  plan->add_option("--unit", plan_command.unit, "Of the trace's times: ms, s or h; ms if absent");
  plan->add_option("--gaps", plan_command.gaps, kGapsText);
  plan->add_option("--at", plan_command.at, "Now, in the trace, as in 5h30m; its end if absent");
  plan->add_option(
          "--history",
          plan_command.history,
          "Of parcae, instead of a trace: counts, as in 12,11,13")
      ->type_name("COUNT,...");
  plan->add_option(
      "--interval", plan_command.interval, "Of parcae: from one count to the next; 60s if absent");
  plan->add_option(
      "--objective",
      plan_command.objective,
      "cost; time: soonest at the loss; throughput-per-hour: most samples/s for --price-per-hour");
  plan->add_option(
      "--price-per-hour",
      plan_command.usd_per_hour,
      "Most to pay for an hour, USD; of deepvm and throughput-per-hour, which need no loss");
  plan->add_option(
      "--start-up",
      plan_command.start_up,
      "Until a machine in the place of a revoked one is up; the catalog's, or 2m, if absent");
  plan->add_option(
          "--lifetimes",
          plan_command.lifetimes,
          "Published ones for types without any in the catalog, as in V100@us-central1")
      ->type_name("DEVICE[@REGION]");
  plan->add_flag(
      "--ignore-revocations",
      plan_command.ignores_revocations,
      "Choose as if no machine were revoked; what revocations do is said all the same");
  effort = plan->add_option(
      "--effort",
      plan_command.effort,
      "Longest search, as in 30s; some ten seconds each if absent");
  plan->add_flag("--explain", plan_command.explains, "Show every type's step and price as well")
      ->excludes("--json");
  plan->add_option("--plot", plan_command.plot_path, "Draw speed and cost over the fleet's size")
      ->type_name("FILE.svg");
  plan->add_option(
          "-o,--output", plan_command.output, "File for the plan, which psctl train --plan runs")
      ->type_name("FILE");
}

void CommandParser::AddPlan() {
  plan = app.add_subcommand("plan", "Choose the cheapest fleet that reaches a loss in time");
  AddPlanning(plan, &plan_command.common);
  within = plan->add_option("--within", plan_command.within, "Longest time, as in 40m, 2h, 1h30m");
  budget = plan->add_option("--budget", plan_command.budget_usd, "Most to spend, USD");
  plan->add_option("--types", plan_command.types, "Types of workers to choose among; all if absent")
      ->type_name("TYPE,...")
      ->allow_extra_args(false);
  plan->add_option("--without", plan_command.without, "Types of workers and servers to leave out")
      ->type_name("TYPE,...")
      ->allow_extra_args(false);
  plan->add_option("--quota", plan_command.quotas, "Most of a type, as in g4dn.4xlarge=5")
      ->type_name("TYPE=COUNT")
      ->allow_extra_args(false);
  plan->add_option(
          "--quota-on-demand",
          plan_command.on_demand_quotas,
          "Most of a type on demand beside its spot machines, as in g4dn.4xlarge=2")
      ->type_name("TYPE=COUNT")
      ->allow_extra_args(false);
  plan->add_option(
          "--held",
          plan_command.held,
          "Running already and kept, with their age, as in g4dn.4xlarge=2@3h; new without one")
      ->type_name("TYPE[:MINIBATCH]=COUNT[@AGE]")
      ->allow_extra_args(false);
  plan->add_flag("--drop-held", plan_command.drops_held, "The plan need not keep them");
  takeover = plan->add_option(
      "--takeover", plan_command.takeover, "What a change of the held fleet costs, as in 30s");
  plan->add_option(
          "--run", plan_command.run, "Run that goes on, or has ended: plan with what is left of it")
      ->type_name("RUN");
  from_loss = plan->add_option(
      "--from-loss",
      plan_command.from_loss,
      "Loss that the run is down to; --within and --budget are what is left");
  steps_done = plan->add_option(
      "--steps-done", plan_command.steps_done, "Steps that it took, of all workers together");
  plan->add_option(
          "--done-by", plan_command.done_by, "Fleet that made those steps; the held one if absent")
      ->type_name("TYPE[:MINIBATCH]=COUNT")
      ->allow_extra_args(false);
  AddPlanChoice();
  predict = app.add_subcommand("predict", "Say what a fleet would do");
  AddPlanning(predict, &predict_command.common);
  predict
      ->add_option(
          "--fleet", predict_command.fleet, "Workers, as in g4dn.4xlarge=2,g3.8xlarge:1024=4")
      ->type_name("TYPE[:MINIBATCH]=COUNT")
      ->allow_extra_args(false)
      ->required();
  predict->add_option("--ps", predict_command.servers, "Servers, as in m5.xlarge=1")->required();
}

}  // namespace ps::psctl
