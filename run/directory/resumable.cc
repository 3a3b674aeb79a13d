#include "run/directory/resumable.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

#include "ps/base/text.h"
#include "run/directory/files.h"
#include "run/directory/run_checkpoints.h"

namespace ps::run {
namespace {

constexpr size_t kNamesMax = 5;

/// Nothing, or "; these can be resumed: a, b".
std::string NamesOf(const std::vector<RunPaths>& oldest_first) {
  std::string text;
  size_t named = 0;
  for (auto it = oldest_first.rbegin(); it != oldest_first.rend() && named < kNamesMax; ++it) {
    if (IsResumable(*it)) {
      text += (named == 0 ? "; these can be resumed: " : ", ") + BaseName(it->root);
      ++named;
    }
  }
  return text;
}

}  // namespace

bool IsResumable(const RunPaths& run) {
  std::error_code error;
  return IsCheckpointPath(CheckpointPathOf(run)) ||
         std::filesystem::is_directory(run.journal(), error) ||
         std::filesystem::exists(run.head(), error);
}

Result<RunPaths> ResolveToResume(const std::string& name, const RunRegistry& registry) {
  Result<RunPaths> run = registry.Resolve(name);
  if (run.ok() || run.status().code() != StatusCode::kNotFound) {
    return run;
  }
  const std::vector<RunPaths> all = registry.All();
  const auto newest = std::find_if(all.rbegin(), all.rend(), [&](const RunPaths& candidate) {
    return JobNameOf(BaseName(candidate.root)) == name && IsResumable(candidate);
  });
  if (newest != all.rend()) {
    return *newest;
  }
  return Status::NotFound(
      fmt::format("no run '{}' that can be resumed{}", Printable(name), NamesOf(all)));
}

}  // namespace ps::run
