#include "provisioner/fleet/cpu_groups.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "ps/base/file.h"
#include "ps/base/unique_fd.h"

namespace ps::provisioner {
namespace {

constexpr int64_t kPeriodMicros = 100'000;
constexpr int64_t kQuotaMicrosMin = 1000;  // the kernel takes no less

std::vector<std::string_view> Cut(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t end = text.find(at);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) {
      return parts;
    }
    text.remove_prefix(end + 1);
  }
}

bool Has(const std::vector<std::string_view>& words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

/// Files of a cgroup take a value in one write.
Status WriteValue(const std::string& path, const std::string& value) {
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  const auto bytes = static_cast<ssize_t>(value.size());
  return fd.is_open() && ::write(fd.get(), value.data(), value.size()) == bytes
             ? Status::Ok()
             : IoError("cannot write", path);
}

/// Whether a file of cgroup v2 has the controller in its line.
bool HasCpu(const std::string& path) {
  const Result<std::string> text = ReadFile(path);
  return text.ok() && Has(Cut(text->substr(0, text->find('\n')), ' '), "cpu");
}

/// In v2 a group has a share only when the one above hands the controller on. That can do so only
/// when it has the controller itself and, unless it is the root, no processes of its own.
Status HandOn(const CpuGroupParent& parent) {
  const std::string handed_on = parent.path + "/cgroup.subtree_control";
  if (!parent.is_v2 || HasCpu(handed_on)) {
    return Status::Ok();
  }
  const std::string there = parent.path + "/cgroup.controllers";
  if (!HasCpu(there)) {
    return Status::Unavailable(there + " does not have cpu");
  }
  PS_TRY(WriteValue(handed_on, "+cpu"));  // EBUSY: it has processes
  return HasCpu(handed_on) ? Status::Ok()
                           : Status::Unavailable(handed_on + " has no cpu, though it took it");
}

Status SetShare(const CpuGroupParent& parent, const std::string& group, double share) {
  const auto micros = static_cast<int64_t>(share * static_cast<double>(kPeriodMicros));
  const int64_t quota = std::max(kQuotaMicrosMin, micros);
  if (parent.is_v2) {
    return WriteValue(group + "/cpu.max", fmt::format("{} {}", quota, kPeriodMicros));
  }
  PS_TRY(WriteValue(group + "/cpu.cfs_period_us", fmt::format("{}", kPeriodMicros)));
  return WriteValue(group + "/cpu.cfs_quota_us", fmt::format("{}", quota));
}

Status Make(const CpuGroupParent& parent, const std::string& group, double share) {
  if (::mkdir(group.c_str(), 0755) != 0 && errno != EEXIST) {
    return IoError("cannot make the cgroup", group);
  }
  return SetShare(parent, group, share);
}

}  // namespace

std::vector<CpuGroupParent> CpuGroupParents(std::string_view mounts, std::string_view own) {
  std::vector<CpuGroupParent> parents;
  for (const std::string_view mount : Cut(mounts, '\n')) {
    const std::vector<std::string_view> fields = Cut(mount, ' ');  // what, where, kind, options
    if (fields.size() < 4) {
      continue;
    }
    const bool is_v2 = fields[2] == "cgroup2";
    if (!is_v2 && (fields[2] != "cgroup" || !Has(Cut(fields[3], ','), "cpu"))) {
      continue;
    }
    for (const std::string_view line : Cut(own, '\n')) {  // "4:cpu,cpuacct:/a/b", "0::/a/b"
      const std::vector<std::string_view> parts = Cut(line, ':');
      if (parts.size() < 3 || (is_v2 ? parts[0] != "0" : !Has(Cut(parts[1], ','), "cpu"))) {
        continue;
      }
      std::string_view path = parts[2];
      while (path.size() > 1) {
        parents.push_back({std::string(fields[1]) + std::string(path), is_v2});
        path = path.substr(0, path.rfind('/'));
      }
      parents.push_back({std::string(fields[1]), is_v2});
    }
  }
  return parents;
}

Result<CpuGroups> CpuGroups::Find() {
  const Result<std::string> mounts = ReadFile("/proc/self/mounts");
  const Result<std::string> own = ReadFile("/proc/self/cgroup");
  return FindIn(
      mounts.ok() && own.ok() ? CpuGroupParents(*mounts, *own) : std::vector<CpuGroupParent>());
}

Result<CpuGroups> CpuGroups::FindIn(const std::vector<CpuGroupParent>& parents) {
  constexpr const char* kRemedy =
      "workers[].cpu_share needs a cgroup with the controller cpu that psctl may make groups in";
  std::string why = "no controller cpu is mounted";
  for (const CpuGroupParent& parent : parents) {
    const std::string probe = fmt::format("{}/spotps-probe-{}", parent.path, ::getpid());
    Status status = HandOn(parent);
    if (status.ok()) {
      status = Make(parent, probe, 1);
      ::rmdir(probe.c_str());
    }
    if (status.ok()) {
      return CpuGroups(parent);
    }
    why = status.message();
  }
  return Status::Unavailable(
      fmt::format("{}: {}; run psctl as root, or leave cpu_share out", kRemedy, why));
}

Result<std::vector<std::string>> CpuGroups::Limit(const std::string& name, double share) const {
  const std::string group = parent_.path + "/" + name;
  PS_TRY(Make(parent_, group, share));
  // The command takes the shell's place, so that its pid and its signals are its own.
  return std::vector<std::string>{
      "/bin/sh", "-c", "echo $$ > \"$0\" && exec \"$@\"", group + "/cgroup.procs"};
}

void CpuGroups::Remove(const std::string& name) const {
  ::rmdir((parent_.path + "/" + name).c_str());
}

}  // namespace ps::provisioner
