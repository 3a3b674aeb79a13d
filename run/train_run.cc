#include "run/train_run.h"

#include <fmt/core.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <system_error>
#include <utility>

#include "checkpoint/job_store.h"
#include "provisioner/fleet/launch_check.h"
#include "provisioner/fleet/local_launcher.h"
#include "provisioner/profile/fingerprint.h"
#include "provisioner/profile/local_steps.h"
#include "provisioner/profile/plan_run.h"
#include "provisioner/profile/run_profiler.h"
#include "ps/base/file.h"
#include "ps/base/host_port.h"
#include "ps/base/text.h"
#include "ps/net/addresses.h"
#include "ps/proto/job/launcher_name.h"
#include "ps/proto/job/task.h"
#include "run/directory/files.h"
#include "run/directory/model_export.h"
#include "run/planning/goal_policy.h"
#include "run/planning/live_policy.h"
#include "run/planning/planning_files.h"
#include "run/planning/price_age.h"
#include "run/report/job_view.h"
#include "run/report/script_parts.h"
#include "run/report/summary.h"
#include "run/report/tables.h"
#include "run/supervisor.h"
#include "worker/script/description.h"
#include "worker/script/script_start.h"

namespace ps::run {
namespace {

constexpr Duration kRedraw = std::chrono::milliseconds(250);
constexpr Duration kBeat = std::chrono::milliseconds(100);
/// SIGCHLD is the fast way; this one also finds processes that never started.
constexpr Duration kReap = std::chrono::milliseconds(50);
/// How exactly the moment of a step is known to the profile.
constexpr Duration kObserve = std::chrono::milliseconds(50);
constexpr Duration kKeepProfile = std::chrono::seconds(60);
/// Rows of a status that may be made at each of these.
constexpr size_t kRowsPerTurn = 64;
/// Children that do not leave by themselves when the job is over are killed after this; programs of
/// others may have something to do after their loop.
constexpr Duration kLeaveTime = std::chrono::seconds(5);
constexpr Duration kProgramLeaveTime = std::chrono::seconds(60);
/// Whoever kills the supervisor may be about to kill this process as well (pkill ps_coordinator):
/// that is no request to stop, and psctl resume is to go on with the run.
constexpr Duration kOrphanDelay = std::chrono::milliseconds(300);

/// The classes that a model guesses among before it has learnt anything; 0: there are none.
int64_t GuessedClasses(const PreparedJob& job) {
  switch (proto::TaskOf(job.config.model)) {
    case proto::Task::kNumbers:
      return 0;
    case proto::Task::kLabels:
      return 2;
    case proto::Task::kClasses:
      break;
  }
  return job.parts.data.classes;
}

coordinator::CoordinatorHost::Options HostOptionsOf(
    TrainStart* start, const RunKeys* keys, ModelDescriber* describer) {
  const RunDirectory& directory = *start->directory;
  coordinator::CoordinatorHost::Options options;
  options.job.config = start->job.config;
  options.job.tensors = start->job.parts.model.tensors;
  options.job.train_samples = start->job.parts.data.train_count;
  options.job.test_samples = start->job.parts.data.test_count;
  options.job.validation_samples = start->job.parts.data.validation_count;
  options.job.classes = GuessedClasses(start->job);
  options.job.run_directory = directory.paths().root;
  options.job.software = "spotps " PS_VERSION;
  options.job.checkpoints = start->checkpoints.kept;
  options.job.next_checkpoint = start->checkpoints.next;
  options.job.set_aside = start->checkpoints.set_aside;
  options.job.resume = std::move(start->resume);
  options.store = std::move(start->checkpoints.store);
  options.token = directory.token();
  options.tls = keys->CoordinatorsTls();
  options.admit = [keys](const proto::Hello& hello) { return keys->Admit(hello); };
  options.control_path = directory.paths().control();
  options.model_path = directory.paths().model();
  if (start->job.parts.script && start->job.parts.script->description().has_more()) {
    options.frozen_path = worker::FrozenPath(directory.paths().described());
    options.job.frozen_crc = start->job.parts.script->description().frozen_crc;
  }
  options.model_metadata = [describer] { return describer->Take(); };
  options.journal = start->journal.journal.get();
  options.recovered = std::move(start->recovered);
  return options;
}

std::vector<proto::LaunchRecord> LaunchesOf(const TrainStart& start) {
  return start.recovered ? start.recovered->launches : std::vector<proto::LaunchRecord>();
}

/// Null: the fleet is what the job and people say. `said`: what is to be known of it.
std::unique_ptr<proto::FleetPolicy> PolicyOf(const proto::JobConfig& config, std::string* said) {
  if (config.goal.loss > 0) {
    return std::make_unique<GoalPolicy>(config, DayOf(SystemTime().UnixMicros()));
  }
  if (config.provisioner.policy == proto::FleetPolicyKind::kNone) {
    return nullptr;
  }
  LivePolicySettings settings = PolicySettingsOf(config);
  if (const Result<proto::JobProfile> profile = LoadProfile(config.goal.profile); profile.ok()) {
    *said = UseMeasuredStart(config, *profile, &settings);
  }
  return std::make_unique<LivePolicy>(settings, PolicyTypesOf(config));
}

TimePoint Now() {
  return SystemTime().Now();
}

}  // namespace

TrainRun::TrainRun(
    TrainStart* start, MetricsFiles metrics, EventFile event_file, const Console& console)
    : config_(start->job.config),
      parts_(start->job.parts),
      directory_(*start->directory),
      keys_(&directory_),
      journal_(start->journal.journal.get()),
      log_(*start->journal.log),
      launches_(LaunchesOf(*start)),
      is_recovered_(start->recovered.has_value()),
      goes_on_(start->resume.has_value() || start->recovered.has_value()),
      metrics_(std::move(metrics)),
      event_file_(std::move(event_file)),
      console_(console),
      launcher_(provisioner::MakeLocalLauncher()),
      describer_(&config_, &parts_.data, directory_.paths().model_card(), &log_),
      host_(HostOptionsOf(start, &keys_, &describer_), &log_),
      plan_(start->job.plan),
      progress_(
          {.is_terminal = console.is_err_terminal,
           .write = console.err,
           .terminal_width = console.err_width}),
      profiler_(
          config_.name,
          parts_.model.tensors,
          provisioner::RunProfiler::SeatsOf(config_),
          config_.train,
          config_.exchange),
      starts_(std::string(proto::LauncherName(config_.launch.launcher))) {}

Status TrainRun::Prepare() {
  PS_TRY(provisioner::CheckPrograms(ProgramDirectory(), config_));
  PS_ASSIGN(const uint32_t port, host_.Listen());
  const std::string& listen = config_.run.listen;
  const bool is_ipv6 = listen == "::";
  const std::string host = ReachableHost(
      listen, config_.run.advertise, net::OwnAddress(is_ipv6, is_ipv6 ? "::1" : "127.0.0.1"));
  address_ = FormatHostPort(host, port);

  provisioner::JobFleet::Options fleet;
  fleet.log_directory = directory_.paths().logs();
  fleet.make_token_file = [this](proto::ProcessKind kind, uint32_t index) {
    return keys_.MakeTokenFile(kind, index);
  };
  fleet.program_directory = ProgramDirectory();
  fleet.coordinator = address_;
  fleet.listen = listen;
  fleet.machine = host;
  fleet.run_start_us = directory_.begun_us();
  fleet.launch = config_.launch;
  fleet.job_name = config_.name;
  fleet.servers = config_.servers;
  if (config_.checkpoint.enabled) {
    fleet.server_needs = checkpoint::JobDirectory(config_.checkpoint.path);
  }
  fleet.journal = journal_;
  fleet.tell = [this](proto::EventCode code, std::initializer_list<LogField> fields) {
    host_.Tell(code, fields);
  };
  fleet.on_start = [this](const proto::WorkerStart& start) { starts_.Begin(start); };
  if (const proto::WorkerConfig& worker = config_.worker; !worker.program.empty()) {
    fleet.worker_flags = {
        "--program", worker::PrintWords(worker.program), "--directory", worker.directory};
  }
  PS_ASSIGN(rented_, RentedMachines::Open(config_, directory_));
  if (rented_ != nullptr) {
    fleet.rented = rented_->hosts();
    fleet.machine_keys = rented_->keys();
  }
  PS_TRY(WriteClasses());
  PS_TRY(directory_.WriteAddress(address_));
  StartPage();
  describer_.Start();
  // Nothing may fail from here on: whoever has adopted the processes takes them along.
  fleet_ = std::make_unique<provisioner::JobFleet>(std::move(fleet), launcher_.get(), &log_);
  fleet_->Adopt(launches_);
  return Status::Ok();
}

/// A run without its page is a run all the same.
void TrainRun::StartPage() {
  if (config_.run.page == proto::kNoPage) {
    return;
  }
  Result<std::unique_ptr<StatusPage>> page = StatusPage::Start(
      {.address = config_.run.page,
       .paths = directory_.paths(),
       .software = "spotps " PS_VERSION,
       .plan = plan_,
       .is_recovered = is_recovered_},
      &host_);
  if (page.ok()) {
    page_ = std::move(page).value();
    return;
  }
  page_trouble_ = page.status().message();
  log_.Warning("no_page", {{"why", page.status()}});
}

/// Whoever uses the model needs it, maybe without the data.
Status TrainRun::WriteClasses() const {
  std::string text;
  for (const std::string& name : parts_.data.class_names) {
    text += name + "\n";
  }
  return text.empty() ? Status::Ok() : WriteFileAtomically(directory_.paths().classes(), text);
}

void TrainRun::Announce() {
  auto pairs = DescribeJob(config_, parts_);
  if (rented_ != nullptr) {
    pairs.insert(pairs.end(), rented_->outlook().begin(), rented_->outlook().end());
  }
  pairs.emplace_back("run", directory_.paths().root);
  if (directory_.authority()) {
    pairs.emplace_back("encrypted", "by TLS 1.3, with certificates of this run (run.tls)");
  }
  if (const Result<HostPort> at = ParseHostPort(address_); at.ok() && !IsLoopback(at->host)) {
    pairs.emplace_back(
        "join",
        "ps_worker --coordinator " + address_ + " --token-file " + directory_.paths().token());
  }
  if (page_ != nullptr) {
    // A log may be read by others, whom the key does not concern.
    const std::string name = BaseName(directory_.paths().root);
    pairs.emplace_back(
        "page",
        console_.is_err_terminal ? page_->link() : "psctl page " + name + " prints its link");
    const Result<HostPort> bound = ParseListenAddress(config_.run.page);
    if (bound.ok() && !IsLoopback(bound->host)) {
      pairs.back().second += "; it is not encrypted: prefer 127.0.0.1, and ssh -L";
    }
  } else if (!page_trouble_.empty()) {
    pairs.emplace_back("page", "none: " + page_trouble_ + "; the run goes on without (run.page)");
  }
  pairs.emplace_back("look", "psctl status, psctl why from another terminal; Ctrl-C ends the run");
  std::string text =
      RenderPairs(pairs) +
      RenderHandStart(config_, {address_, directory_.paths().token(), net::OwnAddress(false, "")});
  text.pop_back();  // Say ends the line
  progress_.Say(text);
  if (rented_ != nullptr && !rented_->warning().empty()) {
    log_.Warning("not_all_rentable", {{"why", rented_->warning()}});
    progress_.Say("some of the job's machines can't be rented: " + Printable(rented_->warning()));
  }
  const std::string path =
      config_.checkpoint.enabled ? config_.checkpoint.path : directory_.paths().root;
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(path, error);
  const std::string warning =
      error ? "" : RenderDiskWarning(config_, parts_, path, space.available);
  if (!warning.empty()) {
    progress_.Say(warning);
  }
}

/// What was told before the coordinator was killed is not told again.
void TrainRun::AnnounceAgain() {
  const proto::JobStatus status = host_.StatusNow();
  events_.Update(status);
  metrics_.SkipEvaluations(status);
  progress_.Say(fmt::format(
      "the coordinator is back, restart {} of this run: {} of {} servers and workers still there, "
      "no step is repeated",
      status.journal.restarts,
      fleet_->running_count(),
      launches_.size()));
}

int TrainRun::Run(SharedState* shared) {
  ::signal(SIGPIPE, SIG_IGN);  // a reader of stderr that goes away must not end the run
  net::Loop& loop = host_.loop();
  const Status signals =
      loop.OnSignal({SIGINT, SIGTERM, SIGHUP}, [this](int s) { OnStopSignal(s); });
  const Status orphaned = loop.OnSignal({kSupervisorLost}, [this](int) { OnSupervisorLost(); });
  const Status children = loop.OnSignal({SIGCHLD}, [this](int) { Reap(); });
  PS_CHECK(signals.ok() && orphaned.ok() && children.ok()) << signals << orphaned << children;
  AcceptStopSignals();
  if (!is_recovered_) {
    Announce();
  } else {
    TakeUpProfile();
    AnnounceAgain();
  }
  if (shared != nullptr) {
    constexpr float kShare = 500;  // ms of each second that servers and workers wait
    shared->standstill_max_ms = static_cast<uint32_t>(kShare * config_.fleet.orphan_grace_s);
    loop.RunEvery(kBeat, [shared] { ++shared->beats; });
  }
  loop.RunEvery(kReap, [this] { Reap(); });
  loop.RunEvery(kRedraw, [this] { Redraw(); });
  loop.RunEvery(kObserve, [this] { Observe(); });
  loop.RunEvery(FromSeconds(config_.run.metrics_every_s), [this] { WriteMetrics(); });
  loop.RunEvery(kKeepProfile, [this] { KeepProfile(); });
  if (page_ != nullptr) {
    page_->Show();
  }
  std::string said;
  std::unique_ptr<proto::FleetPolicy> policy = PolicyOf(config_, &said);
  if (!said.empty()) {
    progress_.Say(said);
  }
  host_.Run(
      {.fleet = fleet_.get(),
       .may_close = [this] { return MayClose(); },
       .on_limit = [this](const std::string& why) { progress_.Say(why + "; ending"); },
       .on_wait =
           [this](const std::string& what) {
             progress_.Say(what + "; Ctrl-C twice ends without it");
           },
       .on_event =
           [this](const proto::EventRow& event) {
             event_file_.Add(event);
             if (page_ != nullptr) {
               page_->board().AddEvent(event);
             }
           },
       .policy = std::move(policy),
       .prices =
           [this] {
             return rented_ == nullptr ? std::vector<proto::MarketPrice>() : rented_->prices();
           },
       .on_decision = [this](const std::string& line) { progress_.Say(line); }});
  if (shared != nullptr) {
    shared->beats = 0;
  }
  if (host_.core().is_outranked()) {
    LeaveToAnother();
  }
  if (page_ != nullptr) {
    page_->Freeze();
  }
  WriteMetrics();
  Redraw();
  progress_.Finish();
  fleet_->KillAll();
  TellOfMachinesLeft();
  final_status_ = host_.StatusNow();
  RescueModel();
  const bool is_failed = HasLostDirectory() || is_aborted_;
  if (!console_.is_joined) {  // else the summary stands right below
    progress_.Say(RenderOutcome(final_status_));
  }
  return is_failed ? kExitFailed : host_.core().exit_code();
}

/// The run is another coordinator's: whatever this process did at its end, it would do to that one.
void TrainRun::LeaveToAnother() {
  progress_.Finish();
  progress_.Say(
      "another coordinator goes on with this run; this one ends and leaves its servers and workers "
      "alone. Is there a copy of " +
      directory_.paths().root + ", or is it shared by machines whose file locks do not work?");
  std::_Exit(kExitFailed);
}

/// A run whose servers were lost at its end leaves the model of its newest checkpoint. Where steps
/// came after that one, a problem stays, and the exit code says so (ExitCodeOf).
void TrainRun::RescueModel() {
  std::string& problem = final_status_.model_problem;
  if (problem.empty()) {
    return;
  }
  if (!is_aborted_ && config_.checkpoint.enabled) {
    const std::string file = directory_.paths().model();
    proto::CheckpointStatus& known = final_status_.checkpoints;
    const uint64_t best = known.is_best_left ? known.best : 0;
    const Result<checkpoint::Manifest> newest = ExportNewestModel(
        config_.checkpoint.path,
        {.path = file,
         .frozen_path = FrozenTensorsOf(directory_.paths().described()),
         .card = describer_.Take()},
        best);
    known.is_best_left = newest.ok() && best != 0 && newest->id == best;
    if (known.is_best_left) {
      final_status_.model_file = file;
      problem.clear();
      log_.Info("model_of_checkpoint", {{"path", file}, {"checkpoint", best}});
      progress_.Say(fmt::format(
          "the model is that of checkpoint {}, of the best epoch, {}", best, known.best_epoch));
      return;
    }
    if (newest.ok() && newest->progress.steps == final_status_.steps_counted) {
      final_status_.model_file = file;
      problem.clear();
      log_.Info("model_of_checkpoint", {{"path", file}, {"checkpoint", newest->id}});
      progress_.Say(
          fmt::format("the model is that of checkpoint {}, which has every step", newest->id));
      return;
    }
    if (newest.ok()) {
      final_status_.model_file = file;
      problem = fmt::format(
          "it is that of checkpoint {}, after {}: {}",
          newest->id,
          Plural(newest->progress.steps, "step"),
          problem);
      log_.Warning("model_of_checkpoint", {{"path", file}, {"checkpoint", newest->id}});
      progress_.Say("the model is not that of the end: " + Printable(problem));
      return;
    }
    problem += "; nor was that of a checkpoint: " + std::string(newest.status().message());
  }
  progress_.Say("the model was not saved: " + Printable(problem));
}

/// Whatever the run has left since, what it had left before is gone.
bool TrainRun::HasLostDirectory() {
  if (directory_.IsStillThere()) {
    return false;
  }
  const std::string& root = directory_.paths().root;
  log_.Error("directory_lost", {{"path", root}});
  progress_.Say(
      "the folder of the run was removed, or moved away, while it trained: its logs, its journal "
      "and the checkpoints of before are not in " +
      Printable(root) + " any more; what is there was written since");
  return true;
}

/// Gives the children the time to end by themselves.
bool TrainRun::MayClose() {
  if (!leave_by_.has_value()) {
    leave_by_ = Now() + (config_.worker.program.empty() ? kLeaveTime : kProgramLeaveTime);
    tell_late_ = Now() + kLeaveTime;
  }
  if (fleet_->running_count() != 0 && Now() < *leave_by_) {
    TellOfLatePrograms();
    return false;
  }
  return rented_ == nullptr || rented_->GiveBack(Now());
}

void TrainRun::TellOfLatePrograms() {
  if (Now() < tell_late_ || *leave_by_ <= tell_late_) {
    return;
  }
  tell_late_ = *leave_by_;  // once
  progress_.Say(fmt::format(
      "the job is over, and worker.program is still at work after its loop; what is left of it in "
      "{} "
      "is killed, by Ctrl-C at once",
      FormatDuration(Seconds(*leave_by_ - Now()))));
}

void TrainRun::Reap() {
  for (const proto::ProcessEnd& end : fleet_->TakeEnds()) {
    OnEnd(end);
  }
}

void TrainRun::OnEnd(const proto::ProcessEnd& end) {
  // Whoever was killed had nothing to say about it, and its loss is an event of the job.
  const bool is_told = end.is_failure || (!end.last_words.empty() && !end.is_clean);
  if (is_told && !host_.core().is_finished()) {
    const std::string who = fmt::format("{} {}", proto::ProcessKindName(end.kind), end.index);
    const std::string before = end.is_failure ? "; its log ends: " : ": ";
    const std::string& last = end.last_words;
    progress_.Say(who + " " + Printable(end.description) + (last.empty() ? "" : before + last));
  }
  if (end.kind == proto::ProcessKind::kWorker) {
    starts_.End(end.launch);
  }
  host_.OnProcessExited(end);
}

void TrainRun::OnStopSignal(int signal) {
  if (leave_by_.has_value() && fleet_->running_count() != 0 && Now() < *leave_by_) {
    progress_.Say("killing what is still at work");
    leave_by_ = Now();
    return;
  }
  if (host_.is_stopping()) {
    progress_.Say("ending at once");
    log_.Warning("stop_at_once", {{"signal", signal}});
    is_aborted_ = true;
    host_.EndAtOnce("stopped by request");
    return;
  }
  log_.Info("stop", {{"signal", signal}});
  progress_.Say("ending after the steps in hand; once more ends at once");
  host_.RequestStop("stopped by request");
}

void TrainRun::OnSupervisorLost() {
  host_.loop().RunAfter(kOrphanDelay, [this] {
    progress_.Say("the process that watches over this one was killed");
    if (!host_.is_stopping()) {
      OnStopSignal(kSupervisorLost);
    }
  });
}

/// A status has a row for each worker: of many, it is taken the less often.
bool TrainRun::IsTurn(size_t* skipped) const {
  if (++*skipped * kRowsPerTurn < host_.core().member_count()) {
    return false;
  }
  *skipped = 0;
  return true;
}

/// Notes how fast the run is.
void TrainRun::Observe() {
  CheckBudget();
  if (host_.is_stopping() || !IsTurn(&looks_skipped_)) {
    return;  // stopping: workers leave one by one, and that is no speed of the fleet
  }
  const proto::JobStatus status = host_.StatusNow();
  profiler_.Observe(status);
  starts_.Look(host_.core().state().membership.members, status.state, Now());
  if (status.state == proto::RunState::kTraining) {
    training_to_ = ReadProcessorTime();
    if (training_from_.total == 0) {
      training_from_ = training_to_;
    }
  }
}

provisioner::LossReached TrainRun::loss_reached() const {
  const auto& limit = host_.limit_reached();
  if (!limit || !limit->is_loss) {
    return {};
  }
  // Plans count minibatches, and the run has gone on for some steps.
  const auto steps = static_cast<double>(std::max<uint64_t>(final_status_.steps_counted, 1));
  const double minibatches =
      provisioner::MinibatchesCounted(final_status_, config_.train.local_steps);
  return {limit->elapsed_s, static_cast<double>(limit->steps_counted) * minibatches / steps};
}

void TrainRun::Redraw() {
  if (!host_.core().is_finished() && !IsTurn(&redraws_skipped_)) {
    return;
  }
  const proto::JobStatus status = host_.StatusNow();
  progress_.Update(status, events_.Update(status), Now());
}

void TrainRun::WriteMetrics() {
  const proto::JobStatus status = host_.StatusNow();
  const int64_t unix_micros = SystemTime().UnixMicros();
  if (page_ != nullptr) {
    page_->board().AddPoint(HistoryPointOf(status, static_cast<double>(unix_micros) / 1e6));
  }
  const auto said = metrics_.Write(status, unix_micros);
  if (said.has_value()) {
    progress_.Say(*said);
  }
}

}  // namespace ps::run
