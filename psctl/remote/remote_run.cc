#include "psctl/remote/remote_run.h"

#include <fmt/core.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>

#include "provisioner/fleet/agent_process.h"
#include "provisioner/rental/open_provider.h"
#include "ps/base/text.h"

namespace ps::psctl {
namespace {

constexpr Duration kFetchMax = std::chrono::hours(12);
constexpr Duration kSlice = std::chrono::milliseconds(200);
/// What stays on the head: secrets, sockets and what a coordinator goes on from, which is over.
constexpr const char* kNotFetched =
    "--exclude=./psctl.pid --exclude=./token --exclude=./tokens --exclude=./authority.pem "
    "--exclude=./control.sock --exclude='./page.*' --exclude=./rentals --exclude=./journal "
    "--exclude=./job.json --exclude=./coordinator.addr";

}  // namespace

RemoteRun::RemoteRun(run::RunPaths paths, const run::Console& console)
    : paths_(std::move(paths)), console_(console), notes_(paths_.rentals() + "/notes") {}

void RemoteRun::Say(const std::string& text) const {
  console_.err("psctl: " + text + "\n");
}

bool RemoteRun::Wait(Duration time) const {
  for (Duration left = time; left > Duration::zero(); left -= kSlice) {
    if (interrupts_ && interrupts_->IsInterrupted()) {
      return false;
    }
    const Duration slice = std::min(left, kSlice);
    ::poll(
        nullptr,
        0,
        static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(slice).count()));
  }
  return !(interrupts_ && interrupts_->IsInterrupted());
}

Result<std::string> RemoteRun::LoginOf(const provisioner::Machine& machine) const {
  const proto::RentConfig& rent = config_.launch.rent;
  const std::string& address = rent.private_address ? machine.private_address : machine.address;
  if (address.empty()) {
    return Status::InvalidArgument(fmt::format(
        "the head machine {} has no public address; set launch.rent.private_address if this "
        "machine "
        "is in the provider's network, or name a subnet that gives public ones",
        machine.id));
  }
  return rent.user + "@" + address;
}

HeadShell RemoteRun::Shell() const {
  return HeadShell({head_.login, config_.launch.ssh_config, paths_.rentals()});
}

std::string RemoteRun::InFolder(const std::string& script) const {
  return "cd " + provisioner::ShellQuoted({run::FolderOnHead(paths_)}) + " && { " + script + "\n}";
}

Result<std::unique_ptr<RemoteRun>> RemoteRun::Open(
    const run::RunPaths& paths, const run::Console& console) {
  std::unique_ptr<RemoteRun> remote(new RemoteRun(paths, console));
  PS_TRY(remote->Load());
  return remote;
}

Status RemoteRun::Load() {
  Result<run::FileLock> lock = run::FileLock::Take(paths_.root + "/head.lock", "");
  if (!lock.ok()) {
    return Status::Unavailable(fmt::format(
        "another psctl is at work on {}: {}", run::BaseName(paths_.root), lock.status().message()));
  }
  lock_ = std::move(lock).value();
  PS_ASSIGN(config_, proto::LoadJobConfig(paths_.config(), {}, proto::DataPlace::kElsewhere));
  PS_ASSIGN(const std::optional<run::HeadFile> head, run::ReadHeadFile(paths_));
  if (head) {
    head_ = *head;
  }
  PS_ASSIGN(provider_, provisioner::OpenProvider(config_.launch, nullptr));
  return Status::Ok();
}

std::string RemoteRun::ProgramsThere() const {
  return PathOnHead(head_.programs);
}

/// The processes of a run that has no end yet are gone when psctl there says so twice: between the
/// last of them and the end that is noted some time passes.
Result<bool> RemoteRun::HasEnded(const HeadShell& shell) {
  PS_ASSIGN(
      const std::string said,
      shell.Run(
          InFolder(fmt::format(
              // The coordinator may outlive whoever notes the end. Other runs are not asked about.
              "look() {{ all=$({}/psctl runs --json) || exit\n"
              "case $(printf %s \"$all\" | tr '}}' '\\n' | grep -F \"$(pwd -P)/runs/\") in "
              "*'\"is_running\":true'*|*'\"is_running\": true'*)\n"
              "echo 'spotps runs'; exit;; esac\n"
              "[ -e ended ] && echo 'spotps ended' && exit; }}\n"
              "look; sleep 5; look; echo 'spotps gone'",
              ProgramsThere())),
          kShort));
  if (SaidOf(said, "spotps runs")) {
    return false;
  }
  if (SaidOf(said, "spotps gone")) {
    Say("the run has gone from its head without an end; was the machine started anew?");
    return true;
  }
  return SaidOf(said, "spotps ended")
             ? Result<bool>(true)
             : Status::Unavailable("the head does not say whether the run goes on");
}

/// Its address changes when it was stopped and started. A head that is gone has taken all with it.
Status RemoteRun::FindHead() {
  const Result<provisioner::Machine> machine = machine_->Rent();
  if (machine.ok()) {
    PS_ASSIGN(head_.login, LoginOf(*machine));
    return run::WriteHeadFile(paths_, head_);
  }
  if (machine.status().code() != StatusCode::kNotFound) {
    return machine.status();
  }
  PS_TRY(GiveBack());
  return Status::NotFound(
      std::string(machine.status().message()) +
      "; what the run had is gone with it, but for copies of its checkpoints (checkpoint.copy_to)");
}

Result<bool> RemoteRun::Follow() {
  if (head_.is_given_back || head_.is_fetched) {
    return true;
  }
  std::optional<TimePoint> lost_at;
  while (true) {
    const HeadShell shell = Shell();
    const Result<bool> ended = HasEnded(shell);
    if (ended.ok() && *ended) {
      return true;
    }
    if (interrupts_->IsInterrupted()) {
      return false;
    }
    if (ended.ok()) {
      lost_at.reset();
      PS_ASSIGN(
          const int code,
          // The summary is shown once it is here.
          shell.Show(InFolder(fmt::format(
              "{}exec {}/psctl attach \"${{run%/}}\" > /dev/null", kFindRun, ProgramsThere()))));
      const Result<bool> now = HasEnded(shell);
      if (now.ok() && *now) {
        return true;
      }
      if (interrupts_->IsInterrupted() || (code == run::kExitOk && now.ok())) {
        return false;  // it was detached from
      }
      Say("the connection to the head was lost; the run does not mind");
      if (!Wait(kLook)) {
        return false;
      }
      continue;
    }
    // Its provider knows whether it is there at all.
    PS_TRY(FindHead());
    if (!lost_at) {
      lost_at = SystemTime().Now();
      Say(fmt::format("{} does not answer: {}", head_.login, ended.status().message()));
    } else if (SystemTime().Now() - *lost_at > kLostMax) {
      return Status::Unavailable(fmt::format(
          "{} has not answered for {:.0f} minutes; the provider says that it runs. psctl attach {} "
          "tries again; psctl cloud sweep {} --run {} ends it, with all that is on it",
          head_.login,
          Seconds(kLostMax) / 60,
          run::BaseName(paths_.root),
          paths_.config(),
          paths_.root));
    }
    if (!Wait(kLook)) {
      return false;
    }
  }
}

Status RemoteRun::Forget() {
  interrupts_.emplace();
  PS_TRY(MakeHead());
  PS_ASSIGN(const std::optional<provisioner::Machine> machine, machine_->Look());
  if (machine) {
    return Status::Unavailable(fmt::format(
        "the provider tells of the head machine {}; psctl attach goes on with it", machine->id));
  }
  head_.is_given_back = true;
  return run::WriteHeadFile(paths_, head_);
}

Status RemoteRun::Collect() {
  if (head_.is_given_back) {
    return Status::Ok();
  }
  interrupts_.reset();
  interrupts_.emplace();  // a Ctrl-C of before was meant for looking at the run
  if (!head_.is_fetched) {
    const HeadShell shell = Shell();
    Say("fetching what the run left");
    // Checkpoints are for who goes on: a run that is done, with its model, needs none. One that was
    // gone on with has them elsewhere. A second archive follows only if the head could read
    // everything for the first one. It has a file that only this attempt asks for: without it not
    // all has arrived.
    PS_ASSIGN(const std::string nonce, run::MakeToken());
    const std::string proof = "fetched." + nonce.substr(0, 16);
    const std::string script = InFolder(fmt::format(
        "{2}cd \"$run\" || exit 1\n"
        "keep=; there=\n"
        "if grep -qs '\"state\": *\"done\"' summary.json && "
        "! grep -qs '\"model_problem\": *\"[^\"]' summary.json && [ -s model.safetensors ]; then\n"
        "keep=--exclude=./checkpoints\n"
        "else for c in ./checkpoints ../../checkpoints ../*/checkpoints; do\n"
        "[ -d \"$c\" ] || continue\n"
        "[ \"$c\" = ./checkpoints ] || there=\"-C ${{c%checkpoints}} checkpoints\"\n"
        "break; done; fi\n"
        ": > ../../{0} && tar -c -f - {1} $keep . $there && tar -c -f - -C ../.. {0}",
        proof,
        kNotFetched,
        kFindRun));
    PS_TRY(shell.Fetch(script, paths_.root, kFetchMax).Annotate("what the run left"));
    if (::unlink((paths_.root + "/" + proof).c_str()) != 0) {
      return Status::Unavailable("not all that the run left has arrived");
    }
    ::sync();  // before the only other copy goes
    head_.is_fetched = true;
    PS_TRY(run::WriteHeadFile(paths_, head_));
  }
  return GiveBack();
}

Status RemoteRun::GiveBack() {
  PS_ASSIGN(const std::optional<double> usd, machine_->GiveBack());
  head_.usd = usd.value_or(0);
  head_.is_given_back = true;
  PS_TRY(run::WriteHeadFile(paths_, head_));
  if (!usd || *usd > 0) {
    Say(usd ? fmt::format("the head is given back; it has cost ${}", FormatUsd(*usd))
            : "the head is given back; what it has cost is not known, since the provider told no "
              "price of it");
  }
  return Status::Ok();
}

}  // namespace ps::psctl
