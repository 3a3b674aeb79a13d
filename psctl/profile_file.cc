#include "psctl/profile_file.h"

#include <array>
#include <cstdio>
#include <optional>
#include <span>

#include "ps/base/crc32c.h"
#include "ps/base/file.h"
#include "ps/base/text.h"
#include "psctl/files.h"
#include "psctl/profile_plan.h"

namespace ps::psctl {
namespace {

constexpr char kNameAnother[] = "name another file (profile -o, train --profile)";

}  // namespace

std::string TrainingFingerprint(const proto::JobConfig& config) {
  const proto::TrainConfig usual;
  proto::JobConfig same;
  same.model = config.model;
  same.data = config.data;
  same.data.test_samples = 0;
  same.optimizer = config.optimizer;
  same.train = config.train;
  same.train.seed = usual.seed;
  same.train.lease_steps = usual.lease_steps;
  same.train.evaluate_every_epochs = usual.evaluate_every_epochs;
  if (config.optimizer.schedule.kind == proto::ScheduleKind::kConstant &&
      config.optimizer.schedule.warmup == 0) {
    same.train.epochs = usual.epochs;
  }
  const std::string text = proto::PrintJobConfig(same);
  std::array<char, 9> hex{};
  std::snprintf(hex.data(), hex.size(), "%08x", Crc32c(std::as_bytes(std::span(text))));
  return hex.data();
}

Status CheckSameJob(
    const std::string& path, const proto::JobProfile& older, const proto::JobProfile& newer) {
  if (older.model_fingerprint != newer.model_fingerprint) {
    return Status::InvalidArgument(
        path + " is a profile of another model (" + Printable(older.model_fingerprint) +
        ", this one is " + newer.model_fingerprint + "); " + kNameAnother);
  }
  const bool is_known = !older.training_fingerprint.empty() && !newer.training_fingerprint.empty();
  if (is_known && older.training_fingerprint != newer.training_fingerprint) {
    return Status::InvalidArgument(
        path + " is of a job that trains otherwise (its training_fingerprint is " +
        Printable(older.training_fingerprint) + ", this one's is " + newer.training_fingerprint +
        "): data, model, optimizer or train differ; " + kNameAnother);
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
  update.not_fitted = FitProfile(&update.profile);
  PS_TRY(WriteFileAtomically(path, proto::PrintProfile(update.profile)));
  return update;
}

}  // namespace ps::psctl
