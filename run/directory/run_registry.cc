#include "run/directory/run_registry.h"

#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "ps/base/crc32c.h"
#include "ps/base/text.h"
#include "run/directory/head_file.h"

namespace ps::run {
namespace {

namespace fs = std::filesystem;

/// Two runs of one name in different places must not share a link.
std::string LinkName(const RunPaths& run) {
  const auto bytes = std::as_bytes(std::span(run.root.data(), run.root.size()));
  return fmt::format("{}.{}", BaseName(run.root), Crc32c(bytes));
}

bool IsRunning(const RunPaths& run) {
  return FileLock::IsHeld(run.lock());
}

std::vector<fs::path> EntriesOf(const std::string& directory) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    entries.push_back(it->path());
  }
  return entries;
}

std::string JoinNames(const std::vector<RunningJob>& jobs) {
  std::string names;
  for (const RunningJob& job : jobs) {
    names += (names.empty() ? "" : ", ") + BaseName(job.paths.root);
  }
  return names;
}

}  // namespace

std::string RunRegistry::DefaultDirectory() {
  return fmt::format("/tmp/spotps-{}", ::geteuid());
}

Status RunRegistry::CheckDirectory() const {
  struct stat info {};

  if (::lstat(directory_.c_str(), &info) != 0) {
    return Status::Io(fmt::format("{}: {}", directory_, std::strerror(errno)));
  }
  if (!S_ISDIR(info.st_mode) || info.st_uid != ::geteuid() || (info.st_mode & 022) != 0) {
    return Status::InvalidArgument(
        fmt::format("{} is not a directory that only you can write to; remove it", directory_));
  }
  return Status::Ok();
}

Status RunRegistry::Add(const RunPaths& run) const {
  if (::mkdir(directory_.c_str(), 0700) != 0 && errno != EEXIST) {
    return Status::Io(fmt::format("cannot make {}: {}", directory_, std::strerror(errno)));
  }
  PS_TRY(CheckDirectory());
  const std::string link = directory_ + "/" + LinkName(run);
  if (::symlink(run.root.c_str(), link.c_str()) != 0 && errno != EEXIST) {
    return Status::Io(fmt::format("cannot make {}: {}", link, std::strerror(errno)));
  }
  return Status::Ok();
}

void RunRegistry::Remove(const RunPaths& run) const {
  if (CheckDirectory().ok()) {
    ::unlink((directory_ + "/" + LinkName(run)).c_str());
  }
}

std::vector<RunningJob> RunRegistry::Find() const {
  std::map<std::string, RunningJob> found;
  const auto consider = [&](const std::string& path) {
    const RunPaths run{AbsolutePath(path)};
    if (!IsRunning(run)) {
      return false;
    }
    found[run.root] = {JobNameOf(BaseName(run.root)), run};
    return true;
  };
  if (CheckDirectory().ok()) {
    for (const fs::path& link : EntriesOf(directory_)) {
      const RunPaths run{AbsolutePath(link.string())};
      std::error_code error;
      if (!consider(link.string()) && !(fs::exists(run.head(), error) && IsElsewhere(run))) {
        ::unlink(link.c_str());
      }
    }
  }
  for (const std::string& parent : scanned_) {
    for (const fs::path& entry : EntriesOf(parent)) {
      consider(entry.string());
    }
  }
  std::vector<RunningJob> jobs;
  for (auto& [path, job] : found) {
    jobs.push_back(std::move(job));
  }
  return jobs;
}

std::vector<RunPaths> RunRegistry::All() const {
  std::set<std::string> roots;
  for (const RunningJob& job : Find()) {
    roots.insert(job.paths.root);
  }
  for (const fs::path& link :
       CheckDirectory().ok() ? EntriesOf(directory_) : std::vector<fs::path>()) {
    std::error_code error;
    const fs::path root = fs::canonical(link, error);
    if (!error && fs::exists(RunPaths{root.string()}.head(), error) &&
        IsElsewhere({root.string()})) {
      roots.insert(root.string());
    }
  }
  for (const std::string& parent : scanned_) {
    for (const fs::path& entry : EntriesOf(parent)) {
      const RunPaths run{AbsolutePath(entry.string())};
      std::error_code error;
      if (fs::exists(run.lock(), error)) {
        roots.insert(run.root);
      }
    }
  }
  std::vector<RunPaths> runs;
  for (const std::string& root : roots) {
    runs.push_back({root});
  }
  // The time is behind the job's name.
  std::ranges::sort(runs, {}, [](const RunPaths& run) {
    const std::string name = BaseName(run.root);
    return std::pair(name.substr(JobNameOf(name).size()), run.root);
  });
  return runs;
}

bool RunRegistry::IsHere(const RunPaths& run) const {
  const std::string parent = fs::path(run.root).parent_path().string();
  return std::ranges::any_of(
      scanned_, [&](const std::string& scanned) { return AbsolutePath(scanned) == parent; });
}

std::string RunRegistry::ScannedText() const {
  std::vector<std::string> parents;
  for (const std::string& parent : scanned_) {
    parents.push_back(AbsolutePath(parent));
  }
  return Join(parents);
}

Result<RunPaths> RunRegistry::Resolve(const std::string& name) const {
  std::error_code error;
  const RunPaths direct{AbsolutePath(name)};
  if (fs::exists(direct.lock(), error)) {
    return direct;
  }
  const std::vector<RunningJob> running = Find();
  std::vector<RunningJob> matches;
  std::vector<std::string> names;
  for (const RunningJob& job : running) {
    if (BaseName(job.paths.root) == name) {
      return job.paths;
    }
    if (job.name == name) {
      matches.push_back(job);
    }
    names.push_back(job.name);
  }
  if (matches.size() == 1) {
    return matches.front().paths;
  }
  if (matches.size() > 1) {
    return Status::InvalidArgument(
        fmt::format("several runs of '{}' are running; name one: {}", name, JoinNames(matches)));
  }
  for (const std::string& parent : scanned_) {
    const RunPaths ended{AbsolutePath(parent + "/" + name)};
    if (fs::exists(ended.lock(), error)) {
      return ended;
    }
  }
  const std::string nearest = NearestName(name, names);
  return Status::NotFound(fmt::format(
      "no running job and no run directory '{}'{}",
      Printable(name),
      nearest.empty() ? running.empty() ? "; none is running" : "; running: " + JoinNames(running)
                      : "; did you mean '" + nearest + "'?"));
}

}  // namespace ps::run
