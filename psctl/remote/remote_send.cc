// What a RemoteRun sends to its head: programs, the job, and what it goes on from.

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "provisioner/fleet/agent_process.h"
#include "ps/base/durable_file.h"
#include "ps/base/file.h"
#include "ps/base/text.h"
#include "ps/crypto/sha256.h"
#include "psctl/remote/head_job.h"
#include "psctl/remote/remote_run.h"

namespace ps::psctl {
namespace {

constexpr size_t kFileBytesMax = size_t{1} << 36;
constexpr size_t kProgramBytesMax = size_t{1} << 32;
constexpr Duration kCopyMax = std::chrono::hours(1);
constexpr Duration kCheckpointsMax = std::chrono::hours(12);
constexpr std::array<const char*, 5> kPrograms = {
    "psctl", "ps_coordinator", "ps_server", "ps_worker", "ps_agent"};
/// With the programs of an installed package, and with those that psctl has sent.
constexpr const char* kInstalled = "/usr/bin";
constexpr const char* kSent = "spotps/bin";

std::string DigestOf(const std::string& bytes) {
  return crypto::HexOf(crypto::Sha256Of(std::as_bytes(std::span(bytes))));
}

}  // namespace

/// Those that are installed there if they are ours, else a copy of ours.
Status RemoteRun::SendPrograms(const HeadShell& shell) {
  std::vector<std::pair<std::string, std::string>> ours;  // name, content
  std::string ask;
  for (const char* const name : kPrograms) {
    PS_ASSIGN(std::string bytes, ReadFile(run::ProgramDirectory() + "/" + name, kProgramBytesMax));
    ours.emplace_back(name, std::move(bytes));
    for (const char* const folder : {kInstalled, kSent}) {
      ask += fmt::format("sha256sum {}/{} 2> /dev/null; ", folder, name);
    }
  }
  PS_ASSIGN(const std::string answer, shell.Run(ask + "true", kShort));
  const auto is_there = [&answer](const std::string& folder, const auto& program) {
    return answer.find(DigestOf(program.second) + "  " + folder + "/" + program.first) !=
           std::string::npos;
  };
  if (std::ranges::all_of(ours, [&](const auto& one) { return is_there(kInstalled, one); })) {
    head_.programs = kInstalled;
    return Status::Ok();
  }
  head_.programs = kSent;
  for (const auto& program : ours) {
    if (is_there(kSent, program)) {
      continue;
    }
    Say(fmt::format("copying {} of {}", FormatBytes(program.second.size()), program.first));
    PS_TRY(shell
               .Run(
                   fmt::format(
                       "mkdir -p {0} && cat > {0}/{1}.part && chmod 755 {0}/{1}.part && mv "
                       "{0}/{1}.part {0}/{1}",
                       kSent,
                       program.first),
                   kCopyMax,
                   program.second)
               .status());
  }
  const Result<std::string> version = shell.Run(fmt::format("{}/psctl --version", kSent), kShort);
  if (!version.ok()) {
    return Status::Unavailable(fmt::format(
        "psctl does not run on the head: {}; its image or launch.rent.setup has to have the "
        "libraries of package spotps",
        version.status().message()));
  }
  return Status::Ok();
}

Status RemoteRun::SendJob(const HeadShell& shell, const HeadFacts& head) {
  const HeadJob job = HeadJobOf(config_, head);
  std::vector<std::pair<std::string, std::string>> files = job.files;
  const std::string plan = paths_.root + "/plan.json";
  PS_ASSIGN(const bool has_plan, IsThere(plan));
  if (has_plan) {
    files.emplace_back(plan, "plan.json");
  }
  const std::string folder = run::FolderOnHead(paths_);
  const auto put = [&](const std::string& name, const std::string& bytes) {
    const std::string path = folder + "/" + name;
    return shell
        .Run(
            fmt::format(
                "umask 077 && mkdir -p {} && cat > {}",
                provisioner::ShellQuoted({folder}),
                provisioner::ShellQuoted({path})),
            kCopyMax,
            bytes)
        .status();
  };
  for (const auto& [path, name] : files) {
    PS_ASSIGN(const std::string bytes, ReadFile(path, kFileBytesMax));
    PS_TRY(put(name, bytes));
  }
  return put("job.json", job.text);
}

/// The last archive has a file of this attempt only: without it not all has arrived.
Status RemoteRun::SendCheckpoints(const HeadShell& shell) {
  if (head_.from.empty() || IsInBucket(head_.from)) {
    return Status::Ok();
  }
  Say("copying the checkpoints to the head");
  PS_ASSIGN(const std::string nonce, run::MakeToken());
  const std::string proof = "sent." + nonce.substr(0, 16);
  PS_TRY(WriteFileAtomically(paths_.root + "/" + proof, ""));
  Status sent = shell.Send(
      {{head_.from, "."}, {paths_.root, proof}},
      InFolder(fmt::format(
          "rm -rf {0} && mkdir {0} && tar -x -i -f - --no-same-owner -C {0} && rm {0}/{1}",
          kCheckpointsThere,
          proof)),
      kCheckpointsMax);
  ::unlink((paths_.root + "/" + proof).c_str());
  return std::move(sent).Annotate("the checkpoints of " + head_.from);
}

}  // namespace ps::psctl
