#include "psctl/runs/runs_prune.h"

#include <fcntl.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "ps/base/file.h"
#include "ps/base/text.h"
#include "ps/base/unique_fd.h"
#include "ps/json/json_value.h"
#include "run/directory/files.h"
#include "run/directory/head_file.h"
#include "run/report/tables.h"

namespace ps::psctl {
namespace {

namespace fs = std::filesystem;

/// What stays of a run whose model stays: psctl runs lists it, and says what it was.
constexpr std::array<std::string_view, 7> kBesideModel = {
    "model.safetensors",
    "classes.txt",
    "job.json",
    "summary.json",
    "summary.txt",
    "psctl.pid",
    "head.json"};

/// A run, and what is to be done with it.
struct Candidate {
  const RunRow* row = nullptr;
  std::vector<std::string> named;  // paths that its config names, absolute
  bool is_removed = false;
  std::string kept_since;  // why it is not; empty: it is not considered
  bool keeps_model = false;
};

bool IsInside(const std::string& path, const std::string& folder) {
  return path == folder || path.starts_with(folder + "/");
}

/// `folders`: where a relative path may begin.
void AddTexts(
    const JsonValue& value, std::span<const std::string> folders, std::vector<std::string>* paths) {
  if (value.kind == JsonValue::Kind::kText && value.text.find("://") == std::string::npos) {
    for (const std::string& folder : folders) {
      paths->push_back(run::AbsolutePath((fs::path(folder) / value.text).lexically_normal()));
    }
  }
  for (const JsonValue& child : value.children) {
    AddTexts(child, folders, paths);
  }
}

/// The folder that a run was started in has the run below it, or is this one.
std::vector<std::string> FoldersOf(const run::RunPaths& run) {
  std::vector<std::string> folders = {run::AbsolutePath(".")};
  for (fs::path at = run::AbsolutePath(run.root); at != at.parent_path(); at = at.parent_path()) {
    folders.push_back(at.parent_path());
  }
  return folders;
}

/// Every text of the run's config as a path: whatever field comes to name a file, it is in here.
std::vector<std::string> PathsNamedBy(const run::RunPaths& run) {
  const Result<std::string> text = ReadFile(run.config());
  const Result<JsonValue> config =
      text.ok() ? ParseJson(*text, run.config()) : Result<JsonValue>(text.status());
  std::vector<std::string> paths;
  if (config.ok()) {  // else what the run has open is found all the same
    AddTexts(*config, FoldersOf(run), &paths);
  }
  // A run that goes on on a rented machine is sent what it goes on from.
  if (const auto head = run::ReadHeadFile(run); head.ok() && *head && !(*head)->is_given_back) {
    paths.push_back((*head)->from);
  }
  return paths;
}

/// The process that has a database below `folder` open; 0: nobody has.
pid_t UserOf(const std::string& folder) {
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const UniqueFd fd(::open((it->path().string() + "/LOCK").c_str(), O_RDWR | O_CLOEXEC));
    struct flock lock = {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    if (fd.is_open() && ::fcntl(fd.get(), F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK) {
      return lock.l_pid;
    }
  }
  return 0;
}

/// A run that did not end well can be gone on with from its checkpoints.
bool IsWorthKeeping(const RunRow& row) {
  std::error_code error;
  const fs::path checkpoints = row.paths.checkpoints();
  return row.state != "done" && fs::is_directory(checkpoints, error) &&
         !fs::is_empty(checkpoints, error);
}

/// Since when nothing was written by the run. The lock's file does not count: looking writes it.
double SecondsSinceEnd(const run::RunPaths& run) {
  fs::file_time_type newest = fs::file_time_type::min();
  for (const std::string& path :
       {run.summary_json(), run.metrics(), run.coordinator_log(), run.config()}) {
    std::error_code error;
    const fs::file_time_type time = fs::last_write_time(path, error);
    newest = error ? newest : std::max(newest, time);
  }
  if (newest == fs::file_time_type::min()) {
    std::error_code error;
    newest = fs::last_write_time(run.root, error);
  }
  return std::chrono::duration<double>(fs::file_time_type::clock::now() - newest).count();
}

/// What goes: all that is in the directory, or all but what stays beside the model.
std::vector<fs::path> PartsOf(const Candidate& candidate) {
  std::vector<fs::path> parts;
  std::error_code error;
  for (fs::directory_iterator it(candidate.row->paths.root, error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (!candidate.keeps_model || std::ranges::find(kBesideModel, name) == kBesideModel.end()) {
      parts.push_back(it->path());
    }
  }
  return parts;
}

uint64_t BytesIn(const fs::path& path) {
  std::error_code error;
  if (!fs::is_directory(fs::symlink_status(path, error))) {
    const bool is_file = fs::is_regular_file(fs::symlink_status(path, error));
    const uintmax_t size = is_file ? fs::file_size(path, error) : 0;
    return error ? 0 : size;
  }
  uint64_t bytes = 0;
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    bytes += BytesIn(it->path());
  }
  return bytes;
}

/// What keeps a run by itself, whatever others name; empty: nothing does.
std::string ReasonOf(const RunRow& row) {
  if (IsWorthKeeping(row)) {
    return "it has checkpoints and did not end well; remove " + Printable(row.paths.root) +
           " by hand if they are not wanted";
  }
  const pid_t user = UserOf(row.paths.checkpoints());
  return user == 0 ? "" : fmt::format("process {} has its checkpoints open", user);
}

std::vector<Candidate> FindCandidates(
    const std::vector<RunRow>& rows, const RunsCommand& command, const run::RunRegistry& registry) {
  std::vector<Candidate> all;
  for (const RunRow& row : rows) {
    Candidate candidate;
    candidate.row = &row;
    candidate.named = PathsNamedBy(row.paths);
    const bool is_old =
        !command.older_than_s || SecondsSinceEnd(row.paths) >= *command.older_than_s;
    if (!row.is_running && registry.IsHere(row.paths) && is_old) {
      candidate.kept_since = ReasonOf(row);
      candidate.is_removed = candidate.kept_since.empty();
      std::error_code error;
      candidate.keeps_model = !command.removes_models && fs::exists(row.paths.model(), error);
    }
    all.push_back(std::move(candidate));
  }
  return all;
}

/// Whether a run that stays names something in the directory of one that is to go; then that one
/// stays, too.
bool KeepOneThatIsNamed(std::vector<Candidate>* all) {
  for (Candidate& candidate : *all) {
    if (!candidate.is_removed) {
      continue;
    }
    for (const Candidate& other : *all) {
      const auto named = std::ranges::find_if(other.named, [&](const std::string& path) {
        return IsInside(path, candidate.row->paths.root);
      });
      if (!other.is_removed && named != other.named.end()) {
        candidate.is_removed = false;
        candidate.kept_since = fmt::format(
            "{}, which {}, uses {}",
            Printable(other.row->name),
            other.row->is_running ? "goes on" : "stays",
            Printable(*named));
        return true;
      }
    }
  }
  return false;
}

/// Nothing may begin to use the directory meanwhile: its lock is held.
Status Remove(const Candidate& candidate) {
  const run::RunPaths& paths = candidate.row->paths;
  PS_ASSIGN(const run::FileLock lock, run::FileLock::Take(paths.lock(), ""));
  if (const pid_t user = UserOf(paths.checkpoints()); user != 0) {
    return Status::Unavailable(
        fmt::format("{} stays: process {} has its checkpoints open", paths.root, user));
  }
  std::error_code error;
  if (!candidate.keeps_model) {
    fs::remove_all(paths.root, error);
  }
  for (const fs::path& part :
       candidate.keeps_model ? PartsOf(candidate) : std::vector<fs::path>()) {
    std::error_code of_part;
    fs::remove_all(part, of_part);
    error = of_part ? of_part : error;
  }
  return error ? Status::Io(fmt::format("cannot remove {}: {}", paths.root, error.message()))
               : Status::Ok();
}

/// Ok: go on.
Status Confirm(const RunsCommand& command, const run::Console& console) {
  if (command.is_confirmed) {
    return Status::Ok();
  }
  if (console.read_line == nullptr) {
    return Status::InvalidArgument(
        "nothing was removed: there is no terminal to ask on; look with psctl runs --prune "
        "--dry-run, then say --yes");
  }
  console.err("Remove this? [y/N] ");
  const std::string answer = console.read_line();
  return answer == "y" || answer == "Y" || answer == "yes"
             ? Status::Ok()
             : Status::Cancelled("nothing was removed");
}

}  // namespace

int PruneRuns(
    const std::vector<RunRow>& rows,
    const RunsCommand& command,
    const run::Console& console,
    const run::RunRegistry& registry) {
  std::vector<Candidate> all = FindCandidates(rows, command, registry);
  while (KeepOneThatIsNamed(&all)) {
  }
  std::vector<RunRow> shown;
  uint64_t bytes = 0;
  size_t models = 0;
  std::erase_if(all, [&](const Candidate& candidate) {
    if (!candidate.kept_since.empty()) {
      console.err(fmt::format(
          "psctl: {} is kept: {}\n", Printable(candidate.row->name), candidate.kept_since));
    }
    const std::vector<fs::path> parts = PartsOf(candidate);
    if (!candidate.is_removed || parts.empty()) {
      return true;
    }
    shown.push_back(*candidate.row);
    models += candidate.keeps_model ? 1 : 0;
    for (const fs::path& part : parts) {
      bytes += BytesIn(part);
    }
    return false;
  });
  if (all.empty()) {
    console.err("psctl: there is no ended run to remove\n");
    return run::kExitOk;
  }
  console.out(RenderRuns(shown, console.out_width));
  console.err(fmt::format(
      "psctl: {} {}, {}{}\n",
      command.only_looks ? "would remove" : "removing",
      Plural(all.size(), "run"),
      FormatBytes(bytes),
      models == 0 ? "" : "; " + Plural(models, "model") + " and summaries stay, unless --models"));
  if (command.only_looks) {
    return run::kExitOk;
  }
  if (const Status confirmed = Confirm(command, console); !confirmed.ok()) {
    return confirmed.code() == StatusCode::kCancelled ? run::Fail(console, confirmed)
                                                      : run::Misuse(console, confirmed);
  }
  int exit_code = run::kExitOk;
  for (const Candidate& candidate : all) {
    if (const Status removed = Remove(candidate); !removed.ok()) {
      exit_code = run::Fail(console, removed);
    }
  }
  return exit_code;
}

}  // namespace ps::psctl
