// Text -> tree -> overrides -> schema check -> values -> cross-field rules, and values -> text.

#include "ps/proto/job/job_config.h"

#include <fmt/core.h>

#include <filesystem>
#include <system_error>

#include "ps/base/file.h"
#include "ps/proto/files/file_check.h"
#include "ps/proto/files/file_values.h"
#include "ps/proto/job/job_check.h"
#include "ps/proto/job/job_fields.h"
#include "ps/proto/limits.h"

namespace ps::proto {
namespace {

/// From a machine that has booted to a worker that has joined, by default.
constexpr uint32_t kJoinSeconds = 120;
constexpr size_t kFileBytesMax = kConfigBytesMax;

/// ssp, bsp, clip_norm and local steps need the whole step before anything moves on; to ask for
/// overlap with them is an error, not to mention it is not.
void ResolveOverlap(JobConfig& config) {
  const bool is_ever_async =
      config.train.mode == Mode::kAsync || config.train.mode_policy != ModePolicy::kFixed;
  config.train.overlap = config.train.overlap && is_ever_async && config.optimizer.clip_norm == 0 &&
                         config.train.local_steps == 1;
}

/// In a job of another program nothing overlaps unless it is asked for: the loop was made for one
/// process, where each gradient is of the newest values, and a gradient that is a step older costs
/// more than waiting for the exchange does (docs/measurements/scripts.md).
void ResolveUnwritten(const JsonValue& root, JobConfig& config) {
  if (!config.worker.program.empty() && root.At("train.overlap") == nullptr) {
    config.train.overlap = false;
  }
  if (IsRented(config.launch.launcher) && root.At("fleet.join_timeout_s") == nullptr) {
    config.fleet.join_timeout_s = static_cast<float>(config.launch.rent.boot_s + kJoinSeconds);
  }
}

/// "auto" is 0 in the file, and a number everywhere else.
void ResolveAuto(JobConfig& config) {
  config.train.adapts_local_steps = config.train.local_steps == 0;
  if (config.train.adapts_local_steps) {
    config.train.local_steps = kAutoLocalSteps;
  }
}

Result<std::string> ReadJobFile(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return Status::InvalidArgument(
        fmt::format("{}:1:1: this is a directory; allowed: a job file", path));
  }
  Result<std::string> text = ReadFile(path, kFileBytesMax);
  switch (text.status().code()) {
    case StatusCode::kNotFound:
      return Status::NotFound(fmt::format(
          "{}: no such file; give the path of a job file, for example one in configs/", path));
    case StatusCode::kInvalidArgument:
      return Status::InvalidArgument(
          fmt::format("{}:1:1: the file is too long; allowed: 1 MiB", path));
    default:
      return text;
  }
}

Result<JsonValue> ParseTree(
    std::string_view text,
    const std::string& file_name,
    const std::vector<ConfigOverride>& overrides) {
  PS_ASSIGN(JsonValue root, ParseJson(text, file_name));
  for (size_t i = 0; i < overrides.size(); ++i) {
    PS_TRY(ApplyOverride(root, overrides[i], static_cast<int>(i) + 1));
  }
  return root;
}

Result<JobConfig> ReadConfig(JsonValue& root, const std::string& file_name) {
  PS_TRY(CheckSchema(root, JobSchema(), file_name));
  auto config = ReadValues<JobConfig>(root, JobSchema());
  ResolveAuto(config);
  ResolveUnwritten(root, config);
  PS_TRY(CheckRules(config, root, file_name));
  ResolveOverlap(config);
  return config;
}

}  // namespace

Result<JobConfig> ParseJobConfig(
    std::string_view text,
    const std::string& file_name,
    const std::vector<ConfigOverride>& overrides,
    DataPlace data) {
  PS_ASSIGN(JsonValue root, ParseTree(text, file_name, overrides));
  PS_ASSIGN(JobConfig config, ReadConfig(root, file_name));
  if (data == DataPlace::kHere) {
    PS_TRY(CheckDataset(config, root, file_name));
  }
  return config;
}

Result<JobConfig> ParsePrintedJobConfig(const std::string& text) {
  const std::string name = "the coordinator's config";
  PS_ASSIGN(JsonValue root, ParseJson(text, name));
  return ReadConfig(root, name);
}

Result<JobConfig> WithOverrides(
    const JobConfig& config, const std::vector<ConfigOverride>& overrides) {
  const std::string name = "the job's config";
  PS_ASSIGN(JsonValue root, ParseTree(PrintJobConfig(config), name, overrides));
  return ReadConfig(root, name);
}

Result<JobConfig> LoadJobConfig(
    const std::string& path, const std::vector<ConfigOverride>& overrides, DataPlace data) {
  PS_ASSIGN(const std::string text, ReadJobFile(path));
  return ParseJobConfig(text, path, overrides, data);
}

Status AtItsField(
    const Status& why, const std::string& path, const std::vector<ConfigOverride>& overrides) {
  constexpr std::string_view kPathCharacters = "abcdefghijklmnopqrstuvwxyz_0123456789.[]";
  const std::string_view message = why.message();
  const std::string_view field = message.substr(0, message.find_first_not_of(kPathCharacters));
  const std::string_view rest = message.substr(field.size());
  const Result<std::string> text = ReadJobFile(path);
  if (!text.ok() || !(rest.starts_with(' ') || rest.starts_with(": "))) {
    return why;
  }
  const Result<JsonValue> root = ParseTree(*text, path, overrides);
  if (!root.ok() || root->Find(field.substr(0, field.find_first_of(".["))) == nullptr) {
    return why;
  }
  return ErrorAtPath(path, *root, field, std::string(message));
}

std::string PrintJobConfig(const JobConfig& config) {
  JobConfig resolved = config;
  ResolveOverlap(resolved);
  if (resolved.train.adapts_local_steps) {
    resolved.train.local_steps = 0;
  }
  return PrintValues(resolved, JobSchema());
}

}  // namespace ps::proto
