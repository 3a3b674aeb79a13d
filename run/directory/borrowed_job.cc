#include "run/directory/borrowed_job.h"

#include <fmt/core.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <iostream>
#include <span>
#include <utility>

#include "ps/base/text.h"
#include "ps/store/s3_settings.h"
#include "run/directory/files.h"

namespace ps::run {
namespace {

constexpr std::string_view kOriginRow = "fetched_from";  // "NUMBER PLACE"
constexpr std::string_view kFileScheme = "file://";

/// Whether both name the same objects, reached in the same way.
bool IsSamePlace(const std::string& a, const std::string& b) {
  if (store::IsS3(a) && store::IsS3(b)) {
    const auto first = store::ParseS3Location(a);
    const auto second = store::ParseS3Location(b);
    return first.ok() && second.ok() && first->bucket == second->bucket &&
           first->prefix == second->prefix && first->endpoint == second->endpoint;
  }
  if (store::IsS3(a) || store::IsS3(b)) {
    return false;
  }
  const auto path_of = [](const std::string& place) {
    std::string path =
        AbsolutePath(place.starts_with(kFileScheme) ? place.substr(kFileScheme.size()) : place);
    while (path.ends_with('/')) {
      path.pop_back();
    }
    return path;
  };
  return path_of(a) == path_of(b);
}

std::string Lines(const std::vector<proto::JobSetting>& settings) {
  std::string lines;
  for (const proto::JobSetting& setting : settings) {
    lines += fmt::format("  {} = \"{}\"\n", setting.path, Printable(setting.value));
  }
  return lines;
}

}  // namespace

Status NoteOrigin(
    checkpoint::JobStore& store, checkpoint::CheckpointId newest, const std::string& place) {
  const std::string text = fmt::format("{} {}", newest, place);
  const checkpoint::RowChange change{
      .kind = checkpoint::ChangeKind::kPut,
      .key = kOriginRow,
      .value = std::as_bytes(std::span(text))};
  return store.WriteRows({&change, 1});
}

Result<std::string> OriginOf(checkpoint::JobStore& store, checkpoint::CheckpointId id) {
  PS_ASSIGN(const std::vector<checkpoint::Row> rows, store.ReadRows(kOriginRow));
  if (rows.empty()) {
    return std::string();
  }
  const std::vector<std::byte>& value = rows.front().value;
  const std::string text(reinterpret_cast<const char*>(value.data()), value.size());
  checkpoint::CheckpointId newest = 0;
  const size_t blank = text.find(' ');
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), newest);
  if (parsed.ec != std::errc() || blank == std::string::npos) {
    return Status::Corruption("the row that says where checkpoints were fetched from is damaged");
  }
  return id <= newest ? text.substr(blank + 1) : std::string();
}

Status CarryOrigin(
    checkpoint::Storage& storage, const std::string& source, const std::string& target) {
  using checkpoint::JobStore;
  PS_ASSIGN(const auto from, JobStore::Open(storage, source, checkpoint::OpenMode::kRead));
  PS_ASSIGN(const std::vector<checkpoint::Row> rows, from->ReadRows(kOriginRow));
  if (rows.empty()) {
    return Status::Ok();
  }
  PS_ASSIGN(const auto to, JobStore::Open(storage, target, checkpoint::OpenMode::kWrite));
  const checkpoint::RowChange change{
      .kind = checkpoint::ChangeKind::kPut, .key = kOriginRow, .value = rows.front().value};
  return to->WriteRows({&change, 1});
}

std::vector<proto::JobSetting> SettingsToConfirm(
    const proto::JobConfig& config,
    const std::vector<proto::ConfigOverride>& overrides,
    const std::string& place) {
  std::vector<proto::JobSetting> settings = proto::SettingsToTrust(config);
  std::erase_if(settings, [&](const proto::JobSetting& setting) {
    return proto::IsOverridden(setting.path, overrides) ||
           (setting.path == "checkpoint.copy_to" && IsSamePlace(setting.value, place));
  });
  return settings;
}

std::string BorrowedRunDirectory(
    const proto::JobConfig& config, const std::vector<proto::ConfigOverride>& overrides) {
  return proto::IsOverridden("run.directory", overrides) ? config.run.directory
                                                         : proto::RunConfig().directory;
}

Status Confirmation::Confirm(
    const std::vector<proto::JobSetting>& settings, const std::string& place) {
  if (settings.empty() || is_trusted_ || settings == confirmed_) {
    return Status::Ok();
  }
  const std::string what = fmt::format(
      "the job in {} starts programs, or names files and places of this machine:\n{}Whoever can "
      "write there can have written this.",
      Printable(place),
      Lines(settings));
  if (ask_ != nullptr && ask_(what + " Go on with it?")) {
    confirmed_ = settings;
    return Status::Ok();
  }
  return Status::InvalidArgument(fmt::format(
      "{} If it is right, add --trust-launch; else give your own with --set, for example --set "
      "{}=...",
      what,
      settings.front().path));
}

Confirmation::Ask AskOnTerminal() {
  if (::isatty(STDIN_FILENO) == 0 || ::isatty(STDERR_FILENO) == 0) {
    return nullptr;
  }
  return [](const std::string& question) {
    std::fprintf(stderr, "%s [y/N] ", question.c_str());
    std::string answer;
    std::getline(std::cin, answer);
    return answer == "y" || answer == "yes";
  };
}

}  // namespace ps::run
