// The steps of a RemoteRun until the run trains.

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "provisioner/fleet/agent_process.h"
#include "provisioner/fleet/machine_keys.h"
#include "provisioner/rental/open_provider.h"
#include "provisioner/rental/rent_settings.h"
#include "ps/base/durable_file.h"
#include "ps/base/file.h"
#include "ps/base/text.h"
#include "psctl/remote/head_check.h"
#include "psctl/remote/head_job.h"
#include "psctl/remote/remote_run.h"
#include "run/directory/rental_name.h"

namespace ps::psctl {
namespace {

constexpr size_t kSetupBytesMax = size_t{64} << 10;
/// Another one after each start of a machine.
constexpr const char* kBootId = "/proc/sys/kernel/random/boot_id";
constexpr size_t kPlanBytesMax = size_t{1} << 26;

}  // namespace

Result<std::unique_ptr<RemoteRun>> RemoteRun::Create(
    proto::JobConfig config, const Beginning& beginning, const run::Console& console) {
  PS_TRY(CheckHeadJob(config));
  config.checkpoint.path.clear();  // in the run's folder there, and here once they are fetched
  // Whoever goes on with it may do so from another folder.
  for (std::string* const path :
       {&config.launch.rent.setup, &config.launch.ssh_config, &config.model.from}) {
    if (!path->empty() && !IsInBucket(*path)) {
      *path = run::AbsolutePath(*path);
    }
  }
  std::string plan;
  if (!beginning.plan.empty()) {
    PS_ASSIGN(plan, ReadFile(beginning.plan, kPlanBytesMax));
  }
  PS_ASSIGN(
      const run::RunDirectory directory,
      run::RunDirectory::Create(config.run.directory, config.name, SystemTime().UnixMicros()));
  std::unique_ptr<RemoteRun> remote(new RemoteRun(directory.paths(), console));
  const auto fill = [&]() -> Status {
    // Whoever goes on with it needs them as they were.
    for (const auto& [path, name] :
         {std::pair(&config.launch.rent.setup, "/setup"),
          std::pair(&config.launch.ssh_config, "/ssh_config")}) {
      if (!path->empty()) {
        PS_ASSIGN(const std::string text, ReadFile(*path, kSetupBytesMax));
        *path = directory.paths().root + name;
        PS_TRY(WriteFileAtomically(*path, text));
      }
    }
    PS_TRY(directory.WriteConfig(proto::PrintJobConfig(config)));
    if (!plan.empty()) {
      PS_TRY(WriteFileAtomically(directory.paths().root + "/plan.json", plan));
    }
    PS_TRY(remote->Load());
    PS_TRY(remote->MakeHead());
    PS_ASSIGN(
        remote->head_.usd_per_hour,
        LookAtProvider(
            remote->config_,
            remote->provider_.get(),
            provisioner::HeadOptionsOf(remote->config_, "check", "#!/bin/sh\n"),
            console));
    // From here on psctl attach finds the run, and may rent its head.
    remote->head_.from = beginning.from;
    remote->head_.changes = beginning.changes;
    remote->head_.is_trusted = beginning.is_trusted;
    return run::WriteHeadFile(directory.paths(), remote->head_);
  };
  if (const Status filled = fill(); !filled.ok()) {
    directory.Discard();
    return filled;
  }
  return remote;
}

Status RemoteRun::MakeHead() {
  std::string setup;
  if (!config_.launch.rent.setup.empty()) {
    PS_ASSIGN(setup, ReadFile(config_.launch.rent.setup, kSetupBytesMax));
  }
  provisioner::MachineBoot boot;
  boot.watch_min = config_.launch.rent.watch_min;
  boot.setup = setup;
  boot.user = config_.launch.rent.user;
  boot.keeps_disk = true;
  PS_ASSIGN(boot.keys, provisioner::MachineKeysIn(paths_.rentals()));
  PS_ASSIGN(std::string script, provisioner::MachineScript(boot));
  PS_ASSIGN(const std::string run, run::RentalRunName(paths_));
  provisioner::HeadMachine::Options options =
      provisioner::HeadOptionsOf(config_, run, std::move(script));
  if (!(options.usd_per_hour > 0)) {
    options.usd_per_hour = head_.usd_per_hour;
  }
  options.wait = [this](Duration time) { return Wait(time); };
  options.say = [this](const std::string& text) { Say(text); };
  machine_.emplace(std::move(options), provider_.get(), &notes_);
  return Status::Ok();
}

Status RemoteRun::Begin() {
  interrupts_.emplace();
  if (head_.is_given_back) {
    return Status::Ok();
  }
  if (!machine_) {
    PS_TRY(MakeHead());
  }
  if (head_.is_begun) {
    return Status::Ok();
  }
  if (head_.is_given_up) {
    return TakeBack(Status::Cancelled("the run was given up before it began"));
  }
  Status started = Start();
  if (is_gone_) {
    PS_TRY(GiveBack());
    return started;
  }
  if (started.ok()) {
    return started;
  }
  if (head_.is_started && !never_began_) {
    return Status(
        started.code(),
        fmt::format(
            "{}; its head may train, and costs: psctl attach {} looks",
            started.message(),
            run::BaseName(paths_.root)));
  }
  return TakeBack(std::move(started));
}

/// Nothing of worth is on a head that the run did not begin on.
Status RemoteRun::TakeBack(Status why) {
  head_.is_given_up = true;
  run::WriteHeadFile(paths_, head_).Ignore("then whoever comes later finds out again");
  interrupts_.reset();
  interrupts_.emplace();  // Ctrl-C has been heard, and giving back takes its time
  if (const Status back = GiveBack(); !back.ok()) {
    Say(fmt::format("{}; psctl attach {} tries again", back.message(), paths_.root));
    return why;
  }
  std::error_code ignored;  // nobody needs what is in it
  std::filesystem::remove_all(paths_.root, ignored);
  return why;
}

Status RemoteRun::Start() {
  const Result<provisioner::Machine> rented = machine_->Rent();
  is_gone_ = !rented.ok() && rented.status().code() == StatusCode::kNotFound;
  PS_ASSIGN(const provisioner::Machine machine, rented);
  const proto::RentConfig& rent = config_.launch.rent;
  PS_ASSIGN(head_.login, LoginOf(machine));
  PS_TRY(run::WriteHeadFile(paths_, head_));
  Say(fmt::format(
      "head {} ({}) is at {}; waiting for ssh", machine.id, PoolText(machine.pool), head_.login));
  const HeadShell shell = Shell();
  const TimePoint give_up_at = SystemTime().Now() + std::chrono::seconds(rent.boot_s);
  for (Status in = shell.Run("true", kShort).status(); !in.ok();
       in = shell.Run("true", kShort).status()) {
    if (!Wait(kLook)) {
      return Status::Cancelled("interrupted");
    }
    if (SystemTime().Now() > give_up_at) {
      return Status::Unavailable(fmt::format(
          "{} does not let ssh in for {} s (launch.rent.boot_s): {}; does security_group let port "
          "22 in, and has the setup script ended well?",
          head_.login,
          rent.boot_s,
          in.message()));
    }
  }
  if (head_.is_started) {  // by one that was killed before it knew
    PS_TRY(AwaitRun(shell));
    head_.is_begun = true;
    return run::WriteHeadFile(paths_, head_);
  }
  PS_TRY(SendPrograms(shell));
  const HeadFacts head = {
      machine.private_address,
      // Nothing where nobody tells it now: then that of the check counts.
      std::max(
          HeadRate(provider_.get(), provisioner::HeadOptionsOf(config_, "price", "#!/bin/sh\n")),
          head_.usd_per_hour),
      machine.pool.zone};
  PS_TRY(SendJob(shell, head));
  PS_TRY(SendCheckpoints(shell));
  if (interrupts_->IsInterrupted()) {
    return Status::Cancelled("interrupted");
  }
  head_.is_started = true;
  PS_TRY(run::WriteHeadFile(paths_, head_));
  // The shell stays while the run does and for as long as somebody may come for what it left: the
  // machine looks for its first words, and stops when there is none (MachineScript).
  PS_ASSIGN(const bool has_plan, IsThere(paths_.root + "/plan.json"));
  const std::string keeper = fmt::format(
      ": spotps process; {{ {}; }} > train.log 2>&1; echo $? > ended; sleep {}; :",
      BeginWords(config_, head, head_, ProgramsThere(), has_plan),
      uint64_t{rent.head.keep_h} * 3600);
  PS_TRY(shell
             .Run(
                 InFolder(fmt::format(
                     "[ -e begun ] || {{ cat {1} > begun; nohup setsid sh -c {0} > /dev/null 2>&1 "
                     "< /dev/null & }}",
                     provisioner::ShellQuoted({keeper}),
                     kBootId)),
                 kShort)
             .status());
  PS_TRY(AwaitRun(shell));
  head_.is_begun = true;
  return run::WriteHeadFile(paths_, head_);
}

/// Until it has a folder and listens, or has ended.
Status RemoteRun::AwaitRun(const HeadShell& shell) {
  std::optional<TimePoint> lost_at;
  while (true) {
    // A run that ended at once has a folder all the same, and what is in it is fetched. After a
    // restart of the machine nobody begins it any more.
    const Result<std::string> answer = shell.Run(
        InFolder(fmt::format(
            "for s in runs/*/control.sock; do [ -S \"$s\" ] && echo 'spotps runs' && exit\n"
            "done\n"
            "[ -e begun ] || {{ echo 'spotps never'; exit; }}\n"
            "[ -e ended ] || [ \"$(cat begun)\" != \"$(cat {})\" ] || {{ echo 'spotps waits'; "
            "exit; }}\n"
            "for d in runs/*/; do [ -d \"$d\" ] && echo 'spotps runs' && exit; done\n"
            "echo 'spotps never'; tail -n 20 train.log",
            kBootId)),
        kShort);
    const std::string text = answer.ok() ? *answer : "";
    if (SaidOf(text, "spotps runs")) {
      return Status::Ok();
    }
    if (SaidOf(text, "spotps never")) {
      never_began_ = true;
      const size_t at = text.find("spotps never");
      return Status::InvalidArgument(
          "the run did not begin on its head:" +
          text.substr(at + std::string("spotps never").size()));
    }
    lost_at = answer.ok() ? std::nullopt : std::optional(lost_at.value_or(SystemTime().Now()));
    if (lost_at && SystemTime().Now() - *lost_at > kLostMax) {
      return Status::Unavailable(fmt::format(
          "{} does not say any more whether the run begins: {}; psctl attach {} asks again",
          head_.login,
          answer.status().message(),
          run::BaseName(paths_.root)));
    }
    if (!Wait(kLook)) {
      return Status::Cancelled(fmt::format(
          "interrupted while the run begins on its head; psctl attach {} goes on with it, psctl "
          "stop ends it then",
          run::BaseName(paths_.root)));
    }
  }
}

}  // namespace ps::psctl
