#include "ps/proto/files/profile.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "profile_bfbs_generated.h"
#include "ps/base/text.h"
#include "ps/codec/encoding.h"
#include "ps/proto/files/file_check.h"
#include "ps/proto/files/file_schema.h"
#include "ps/proto/files/file_values.h"
#include "ps/proto/files/planning_fields.h"

namespace ps::proto {
namespace {

/// Two of a type with one minibatch.
Status Repeated(const JsonValue& root, const std::string& path, const std::string& file) {
  return ErrorAtPath(
      file,
      root,
      path,
      path + " has the instance_type and minibatch of an earlier one; allowed: each pair once");
}

Status CheckWorkers(const JobProfile& profile, const JsonValue& root, const std::string& file) {
  std::set<std::pair<std::string_view, int>> seen;
  for (size_t i = 0; i < profile.workers.size(); ++i) {
    const WorkerProfile& worker = profile.workers[i];
    const std::string path = fmt::format("workers[{}]", i);
    if (!seen.emplace(worker.instance_type, worker.minibatch).second) {
      return Repeated(root, path, file);
    }
    if (worker.minibatch_max != 0 && worker.minibatch > worker.minibatch_max) {
      return ErrorAtPath(
          file,
          root,
          path + ".minibatch",
          fmt::format(
              "{}.minibatch is {}, above minibatch_max; allowed: up to {}",
              path,
              worker.minibatch,
              worker.minibatch_max));
    }
  }
  return Status::Ok();
}

/// `path`: of what has them, "" or "penalties[1].".
Status CheckEncodings(
    const ExchangeScheme& scheme,
    const std::string& path,
    const JsonValue& root,
    const std::string& file) {
  const std::pair<const char*, const std::string&> both[] = {
      {"push", scheme.push}, {"pull", scheme.pull}};
  for (const auto& [name, text] : both) {
    if (const auto encoding = codec::ParseEncoding(text); !encoding.ok()) {
      return ErrorAtPath(
          file,
          root,
          path + name,
          fmt::format("{}{}: {}", path, name, encoding.status().message()));
    }
  }
  return Status::Ok();
}

Status CheckPenalties(const JobProfile& profile, const JsonValue& root, const std::string& file) {
  std::set<std::tuple<std::string_view, int, std::string, std::string>> seen;
  for (size_t i = 0; i < profile.penalties.size(); ++i) {
    const std::string path = fmt::format("penalties[{}]", i);
    const std::string_view mode = profile.penalties[i].mode;
    const ExchangeScheme scheme = profile.SchemeOf(profile.penalties[i]);
    PS_TRY(CheckEncodings(scheme, path + ".", root, file));
    if (!seen.emplace(mode, scheme.local_steps, scheme.push, scheme.pull).second) {
      return ErrorAtPath(
          file,
          root,
          path,
          fmt::format(
              "{} is of {} local steps, push {} and pull {} in mode {}, as one before it; allowed: "
              "one of each",
              path,
              scheme.local_steps,
              scheme.push,
              scheme.pull,
              mode));
    }
  }
  return Status::Ok();
}

Status CheckCurves(const CurveFit& fit, const JsonValue& root, const std::string& file) {
  if (std::ranges::adjacent_find(fit.losses, std::ranges::less_equal()) != fit.losses.end()) {
    return ErrorAtPath(
        file, root, "curves.losses", "curves.losses has to fall; allowed: each below the last");
  }
  for (size_t i = 0; i < fit.fleets.size(); ++i) {
    const size_t count = fit.fleets[i].by_loss.size();
    if (count != 0 && count != fit.losses.size()) {
      const std::string path = fmt::format("curves.fleets[{}].by_loss", i);
      return ErrorAtPath(
          file,
          root,
          path,
          fmt::format(
              "{} has {} values; allowed: {}, one for each of curves.losses",
              path,
              count,
              fit.losses.size()));
    }
  }
  return Status::Ok();
}

}  // namespace

const Schema& ProfileSchema() {
  return *reflection::GetSchema(config::JobProfileBinarySchema::data());
}

std::string SchemeText(const proto::ExchangeScheme& scheme, const proto::ExchangeScheme& usual) {
  std::vector<std::string> parts;
  const bool has_other_push = scheme.push != usual.push;
  const bool has_other_pull = scheme.pull != usual.pull;
  if (scheme.local_steps != usual.local_steps || (!has_other_push && !has_other_pull)) {
    parts.push_back(Plural(static_cast<uint64_t>(scheme.local_steps), "local step"));
  }
  if (has_other_push) {
    parts.push_back("push " + scheme.push);
  }
  if (has_other_pull) {
    parts.push_back("pull " + scheme.pull);
  }
  return Join(parts);
}

const WorkerProfile* JobProfile::Find(std::string_view instance_type) const {
  const auto found = std::ranges::find(workers, instance_type, &WorkerProfile::instance_type);
  return found == workers.end() ? nullptr : &*found;
}

const WorkerProfile* JobProfile::Find(std::string_view instance_type, int minibatch) const {
  const auto found = std::ranges::find_if(workers, [&](const WorkerProfile& worker) {
    return worker.instance_type == instance_type && worker.minibatch == minibatch;
  });
  return found == workers.end() ? nullptr : &*found;
}

Result<JobProfile> ParseProfile(std::string_view text, const std::string& file) {
  PS_ASSIGN(JsonValue root, ParseJson(text, file));
  // What programs before 2026-11-29 timed for a model that is gone.
  std::erase_if(root.children, [](const JsonValue& child) {
    return child.key == "steps" || child.key == "link";
  });
  PS_TRY(CheckSchema(root, ProfileSchema(), file));
  auto profile = ReadValues<JobProfile>(root, ProfileSchema());
  PS_TRY(CheckWorkers(profile, root, file));
  PS_TRY(CheckEncodings(profile.Scheme(), "", root, file));
  PS_TRY(CheckPenalties(profile, root, file));
  PS_TRY(CheckCurves(profile.curves, root, file));
  return profile;
}

std::string PrintProfile(const JobProfile& profile) {
  return PrintValues(profile, ProfileSchema());
}

}  // namespace ps::proto
