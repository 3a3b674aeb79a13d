#include "psctl/train_run.h"

#include <csignal>
#include <filesystem>
#include <utility>

#include "provisioner/local_launcher.h"
#include "psctl/launch_text.h"
#include "psctl/profile_file.h"
#include "psctl/summary.h"
#include "psctl/tables.h"
#include "psctl/text.h"

namespace ps::psctl {
namespace {

constexpr Duration kRedraw = std::chrono::milliseconds(250);
/// How exactly the moment of a step is known to the profile.
constexpr Duration kObserve = std::chrono::milliseconds(50);
/// A smoothed loss says something after so many steps.
constexpr uint64_t kLossSteps = 20;
/// Children that do not leave by themselves when the job is over are killed after this.
constexpr Duration kLeaveTime = std::chrono::seconds(5);
/// A control connection is one question and its answer. Silent ones must not pile up.
constexpr Duration kControlTime = std::chrono::seconds(5);

std::string HostAndPort(const std::string& host, uint32_t port) {
  const std::string text = host.find(':') == std::string::npos ? host : "[" + host + "]";
  return text + ":" + std::to_string(port);
}

std::string ProgramDirectory() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path().string();
}

/// The last line of a file that says anything, for messages about a process that failed.
std::string LastLine(const std::string& path) {
  const Result<std::string> text = ReadFile(path);
  if (!text.ok()) {
    return "";
  }
  const size_t last = text->find_last_not_of("\n ");
  if (last == std::string::npos) {
    return "";
  }
  const size_t newline = text->rfind('\n', last);
  const size_t begin = newline == std::string::npos ? 0 : newline + 1;
  return Printable(text->substr(begin, last + 1 - begin));
}

}  // namespace

TrainRun::TrainRun(
    const proto::JobConfig& config,
    JobParts parts,
    const RunDirectory& directory,
    std::unique_ptr<LogSink> log_sink,
    LineFile metrics,
    const Console& console)
    : config_(config),
      parts_(std::move(parts)),
      directory_(directory),
      log_sink_(std::move(log_sink)),
      log_("coordinator", &SystemTime(), log_sink_.get()),
      metrics_(std::move(metrics)),
      console_(console),
      timing_(proto::Timing::FromMaxDetect(FromSeconds(config.fleet.max_detect_s))),
      launcher_(provisioner::MakeLocalLauncher()),
      progress_(
          {.is_terminal = console.is_err_terminal,
           .write = console.err,
           .terminal_width = console.err_width}),
      profiler_(config.name, parts_.model.tensors, RunProfiler::SeatsOf(config)) {}

Status TrainRun::Prepare() {
  PS_TRY(CheckPrograms(ProgramDirectory()));
  net::EndpointOptions options;
  options.node = "coordinator";
  options.token = directory_.token();
  options.roles = {proto::Role::kWorker, proto::Role::kShard};
  options.file_roles = {proto::Role::kControl};
  options.seed = config_.train.seed;
  endpoint_ = std::make_unique<net::Endpoint>(
      &loop_, std::move(options), &log_, static_cast<net::EndpointHandler*>(this));
  PS_ASSIGN(
      const uint32_t port,
      endpoint_->Listen(config_.run.listen, config_.run.port).Annotate("run.listen and run.port"));
  PS_TRY(ListenForControl());
  const std::string& listen = config_.run.listen;
  const std::string host =
      ReachableHost(listen, config_.run.advertise, listen == "::" ? "::1" : "127.0.0.1");
  const std::string address = HostAndPort(host, port);

  LocalFleet::Options fleet;
  fleet.paths = directory_.paths();
  fleet.program_directory = ProgramDirectory();
  fleet.coordinator = address;
  fleet.listen = listen;
  fleet.machine = host;
  fleet.launch = config_.launch;
  fleet.shards_per_server = config_.servers.shards_per_server;
  fleet.server_mbit_per_s = config_.servers.link_mbit_per_s;
  fleet_ = std::make_unique<LocalFleet>(std::move(fleet), launcher_.get(), &log_);

  coordinator::CoordinatorOptions core;
  core.config = config_;
  core.tensors = parts_.model.tensors;
  core.train_samples = parts_.data.train_count;
  core.test_samples = parts_.data.test_count;
  core.run_directory = directory_.paths().root;
  core_ = std::make_unique<coordinator::CoordinatorCore>(std::move(core), fleet_.get(), &log_);
  return directory_.WriteAddress(address);
}

Status TrainRun::ListenForControl() {
  const Status status = endpoint_->ListenAtFile(directory_.paths().control());
  if (status.ok()) {
    return status;
  }
  return Status(
      status.code(),
      std::string(status.message()) +
          "; choose a place on a local file system with --set run.directory=DIR (not every network "
          "or shared one holds sockets)");
}

void TrainRun::OnConnected(proto::PeerId peer, const proto::Hello& hello) {
  if (hello.role == proto::Role::kControl) {
    endpoint_->CloseAfter(peer, kControlTime);
  }
  core_->OnPeerConnected(peer, hello, Now(), endpoint_.get());
}

void TrainRun::Announce() {
  uint32_t workers = 0;
  for (const proto::WorkerGroup& group : config_.workers) {
    workers += group.count;
  }
  const std::string faults =
      config_.faults.empty() ? "" : ", " + Plural(config_.faults.size(), "planned disturbance");
  std::string text = RenderPairs(
      {{"job", Printable(config_.name)},
       {"model",
        FormatCount(static_cast<uint64_t>(parts_.model.parameter_count())) + " parameters in " +
            Plural(parts_.model.tensors.size(), "tensor")},
       {"data",
        FormatCount(parts_.data.train_count) + " training and " +
            FormatCount(parts_.data.test_count) + " test samples"},
       {"fleet",
        Plural(config_.servers.count, "server") + " of " +
            Plural(config_.servers.shards_per_server, "shard") + ", " + Plural(workers, "worker") +
            faults},
       {"times",
        "a silent worker is lost after " + FormatDuration(Seconds(timing_.detect)) +
            ", heartbeat every " + FormatDuration(Seconds(timing_.heartbeat))},
       {"run", directory_.paths().root},
       {"look", "psctl status, psctl why from another terminal; Ctrl-C ends the run"}});
  text.pop_back();  // Say ends the line
  progress_.Say(text);
  log_.Info(
      "job_begins",
      {{"job", config_.name},
       {"max_detect_s", Seconds(timing_.detect)},
       {"heartbeat_s", Seconds(timing_.heartbeat)},
       {"lease_s", Seconds(timing_.lease)},
       {"retry_first_s", Seconds(timing_.retry_first)},
       {"retry_limit_s", Seconds(timing_.retry_limit)},
       {"connect_timeout_s", Seconds(timing_.connect_timeout)}});
}

int TrainRun::Run() {
  ::signal(SIGPIPE, SIG_IGN);  // a reader of stderr that goes away must not end the run
  const Status signals =
      loop_.OnSignal({SIGINT, SIGTERM, SIGHUP}, [this](int s) { OnStopSignal(s); });
  const Status children = loop_.OnSignal({SIGCHLD}, [this](int) { Reap(); });
  PS_CHECK(signals.ok() && children.ok()) << signals << children;
  Announce();
  loop_.RunEvery(timing_.tick, [this] { Tick(); });
  loop_.RunEvery(kRedraw, [this] { Redraw(); });
  loop_.RunEvery(kObserve, [this] { Observe(); });
  loop_.RunEvery(FromSeconds(config_.run.metrics_every_s), [this] { WriteMetrics(); });
  core_->Start(Now());
  loop_.Run();
  WriteMetrics();
  Redraw();
  progress_.Finish();
  fleet_->KillAll();
  final_status_ = core_->StatusAt(Now());
  if (!console_.is_joined) {  // else the summary stands right below
    progress_.Say(RenderOutcome(final_status_));
  }
  return is_aborted_ ? kExitFailed : core_->exit_code();
}

void TrainRun::Tick() {
  Reap();  // the signal is the fast way; this one also finds processes that never started
  core_->OnTick(Now(), endpoint_.get());
  if (core_->is_finished()) {
    Leave();
  }
}

/// Gives the children the time to end by themselves, then closes what is left.
void TrainRun::Leave() {
  if (!leave_by_.has_value()) {
    leave_by_ = Now() + kLeaveTime;
  }
  if (fleet_->running_count() > 0 && Now() < *leave_by_) {
    return;
  }
  leave_by_ = TimePoint::max();
  endpoint_->CloseAll([this] { loop_.Stop(); });
}

void TrainRun::Reap() {
  for (const LocalFleet::End& end : fleet_->TakeEnds()) {
    OnEnd(end);
  }
}

void TrainRun::OnEnd(const LocalFleet::End& end) {
  // Whoever was killed had nothing to say about it, and its loss is an event of the job.
  const bool has_reason = !end.is_clean && !end.is_planned && !core_->is_finished() &&
                          !end.end.description.starts_with("killed");
  if (has_reason) {
    const std::string who =
        (end.end.kind == coordinator::ProcessKind::kServer ? "server " : "worker ") +
        std::to_string(end.end.index);
    const std::string last = LastLine(end.log_path);
    progress_.Say(
        who + " " + Printable(end.end.description) +
        (last.empty() ? "" : "; its log ends: " + last));
  }
  core_->OnProcessExited(end.end, Now(), endpoint_.get());
}

void TrainRun::OnStopSignal(int signal) {
  if (is_stopping_) {
    progress_.Say("ending at once");
    log_.Warning("stop_at_once", {{"signal", signal}});
    is_aborted_ = true;
    core_->RequestStop(true, "stopped by request", Now(), endpoint_.get());
    loop_.Stop();
    return;
  }
  is_stopping_ = true;
  log_.Info("stop", {{"signal", signal}});
  progress_.Say("ending after the steps in hand; once more ends at once");
  core_->RequestStop(false, "stopped by request", Now(), endpoint_.get());
}

/// Notes how fast the run is, and ends it when it has come as far as the config asks for.
void TrainRun::Observe() {
  if (is_stopping_) {
    return;  // workers leave one by one: that is no speed of the fleet
  }
  const proto::JobStatus status = core_->StatusAt(Now());
  profiler_.Observe(status);
  if (status.state == "training") {
    training_to_ = ReadProcessorTime();
    if (training_from_.total == 0) {
      training_from_ = training_to_;
    }
  }
  const proto::RunConfig& run = config_.run;
  const bool is_time_over = run.seconds_max > 0 && status.elapsed_s >= run.seconds_max;
  const bool is_loss_reached = run.stop_at_loss > 0 && status.steps_counted >= kLossSteps &&
                               status.train_loss <= run.stop_at_loss;
  if (!is_time_over && !is_loss_reached) {
    return;
  }
  if (is_loss_reached) {
    loss_reached_ = {status.elapsed_s, static_cast<double>(status.steps_counted)};
  }
  is_stopping_ = true;
  log_.Info("enough", {{"elapsed_s", status.elapsed_s}, {"train_loss", status.train_loss}});
  const std::string why =
      is_loss_reached ? "the training loss is down to run.stop_at_loss" : "run.seconds_max is over";
  progress_.Say(why + "; ending");
  core_->RequestStop(false, why, Now(), endpoint_.get());
}

proto::JobProfile TrainRun::Profile() const {
  proto::JobProfile profile = profiler_.Profile();
  profile.training_fingerprint = TrainingFingerprint(config_);
  const bool is_overlapping = config_.train.overlap && config_.train.mode == proto::Mode::kAsync;
  profile.overlap = is_overlapping ? 1 : 0;
  for (proto::FleetSample& fleet : profile.fleets) {
    fleet.server_hosts = static_cast<int>(config_.servers.count);
    fleet.server_bytes_per_s = double{config_.servers.link_mbit_per_s} * 1e6 / 8;
  }
  return profile;
}

void TrainRun::Redraw() {
  const proto::JobStatus status = core_->StatusAt(Now());
  progress_.Update(status, events_.Update(status), Now());
}

void TrainRun::WriteMetrics() {
  const auto said =
      metrics_.Append(MetricsToJson(core_->StatusAt(Now()), SystemTime().UnixMicros()));
  if (said.has_value()) {
    progress_.Say(*said);
  }
}

}  // namespace ps::psctl
