#include "run/planning/planning_files.h"

#include <fmt/core.h>

#include <filesystem>
#include <optional>
#include <system_error>
#include <vector>

#include "provisioner/model/profile_fit.h"
#include "ps/base/file.h"
#include "ps/base/text.h"
#include "run/directory/files.h"

namespace ps::run {
namespace {

constexpr const char* kDefaultCatalog = "configs/catalog/aws.json";
constexpr const char* kInstalled = "share/spotps";  // beside the folder of the programs
constexpr char kNameAnother[] = "name another file (profile -o, train --profile)";

/// "train.local_steps 8, exchange.push int8 and exchange.pull f32"
std::string ExchangeText(const proto::ExchangeScheme& scheme) {
  return fmt::format(
      "train.local_steps {}, exchange.push {} and exchange.pull {}",
      scheme.local_steps,
      scheme.push,
      scheme.pull);
}

}  // namespace

Result<std::string> FindShipped(const std::string& file) {
  std::error_code error;
  if (std::filesystem::is_regular_file(file, error)) {
    return std::string(".");
  }
  const std::filesystem::path program = ProgramDirectory();
  std::vector<std::filesystem::path> places = {program.parent_path() / kInstalled};
  for (auto folder = program; folder.has_relative_path(); folder = folder.parent_path()) {
    places.push_back(folder);
  }
  for (const std::filesystem::path& place : places) {
    if (std::filesystem::is_regular_file(place / file, error)) {
      return place.string();
    }
  }
  return Status::NotFound(fmt::format(
      "there is no {} here, above {} or in {}", file, program.string(), places.front().string()));
}

Result<std::string> FindCatalog(const std::string& given) {
  if (!given.empty()) {
    return given;
  }
  const Result<std::string> root = FindShipped(kDefaultCatalog);
  if (!root.ok()) {
    return Status::NotFound(
        fmt::format("no catalog: {}; name one, as in --catalog FILE", root.status().message()));
  }
  return *root == "." ? std::string(kDefaultCatalog) : *root + "/" + kDefaultCatalog;
}

Result<proto::Catalog> LoadCatalog(const std::string& given) {
  PS_ASSIGN(const std::string path, FindCatalog(given));
  PS_ASSIGN(const std::string text, ReadFile(path));
  return proto::ParseCatalog(text, path);
}

Result<proto::Plan> LoadPlan(const std::string& path) {
  PS_ASSIGN(const std::string text, ReadFile(path));
  return proto::ParsePlan(text, path);
}

Result<proto::JobProfile> LoadProfile(const std::string& path) {
  const Result<std::string> text = ReadFile(path);
  if (!text.ok() && text.status().code() == StatusCode::kNotFound) {
    return Status::NotFound(fmt::format(
        "no profile {}; make one with psctl profile JOB.json, or name one with --profile", path));
  }
  PS_TRY(text.status());
  return proto::ParseProfile(*text, path);
}

Status CheckSameJob(
    const std::string& path, const proto::JobProfile& older, const proto::JobProfile& newer) {
  if (older.model_fingerprint != newer.model_fingerprint) {
    return Status::InvalidArgument(fmt::format(
        "{} is a profile of another model ({}, this one is {}); {}",
        path,
        Printable(older.model_fingerprint),
        newer.model_fingerprint,
        kNameAnother));
  }
  if (older.Scheme() != newer.Scheme()) {
    return Status::InvalidArgument(fmt::format(
        "{} was measured with {}, this job has {}, and fleets and losses of both can't be one "
        "profile; {}",
        path,
        ExchangeText(older.Scheme()),
        ExchangeText(newer.Scheme()),
        kNameAnother));
  }
  const bool is_known = !older.training_fingerprint.empty() && !newer.training_fingerprint.empty();
  if (is_known && older.training_fingerprint != newer.training_fingerprint) {
    return Status::InvalidArgument(fmt::format(
        "{} is of a job that trains otherwise (its training_fingerprint is {}, this one's is {}): "
        "data, model, optimizer or train differ; {}",
        path,
        Printable(older.training_fingerprint),
        newer.training_fingerprint,
        kNameAnother));
  }
  return Status::Ok();
}

Result<ProfileUpdate> UpdateProfileFile(const std::string& path, const ProfileChange& change) {
  PS_ASSIGN(const FileLock lock, FileLock::WaitForFolderOf(path));
  std::optional<proto::JobProfile> older;
  const Result<std::string> text = ReadFile(path);
  if (text.ok()) {
    PS_ASSIGN(older, proto::ParseProfile(*text, path));
  } else if (text.status().code() != StatusCode::kNotFound) {
    return text.status();
  }
  ProfileUpdate update;
  PS_ASSIGN(update.profile, change(older ? &*older : nullptr));
  update.not_fitted = provisioner::FitProfile(&update.profile);
  PS_TRY(WriteFileAtomically(path, proto::PrintProfile(update.profile)));
  return update;
}

}  // namespace ps::run
