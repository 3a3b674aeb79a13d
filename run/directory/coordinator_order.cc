#include "run/directory/coordinator_order.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "ps/base/file.h"
#include "ps/process/flags.h"
#include "run/directory/files.h"

namespace ps::run {
namespace {

constexpr const char* kYes = "yes";

void AddIf(const std::string& flag, const std::string& value, std::vector<std::string>* words) {
  if (!value.empty()) {
    words->push_back(flag);
    words->push_back(value);
  }
}

void AddYes(const std::string& flag, bool is_wanted, std::vector<std::string>* words) {
  AddIf(flag, is_wanted ? kYes : std::string(), words);
}

void AddOverrides(
    const std::vector<proto::ConfigOverride>& overrides, std::vector<std::string>* words) {
  words->emplace_back("--");
  for (const proto::ConfigOverride& change : overrides) {
    words->push_back(change.key + "=" + change.value);
  }
}

Result<std::vector<proto::ConfigOverride>> ReadOverrides(
    const char* const* begin, const char* const* end) {
  std::vector<proto::ConfigOverride> overrides;
  for (const char* const* word = begin; word != end; ++word) {
    const std::string text = *word;
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) {
      return Status::InvalidArgument(fmt::format("'{}' is not KEY=VALUE", text));
    }
    overrides.push_back({text.substr(0, equals), text.substr(equals + 1)});
  }
  return overrides;
}

Result<bool> IsWanted(const Flags& flags, const std::string& name) {
  const std::string text = flags.TextOr(name, "");
  if (!text.empty() && text != kYes) {
    return Status::InvalidArgument(fmt::format("--{} takes yes, not '{}'", name, text));
  }
  return !text.empty();
}

}  // namespace

std::vector<std::string> WordsOf(const CoordinatorOrder& order) {
  std::vector<std::string> words;
  if (const auto* train = std::get_if<TrainOrder>(&order)) {
    AddIf("--job", train->job_path, &words);
    AddIf("--plan", train->plan_path, &words);
    AddIf("--profile", train->profile_path, &words);
    AddYes("--no-refine", train->no_refine, &words);
    AddYes("--json", train->is_json, &words);
    AddYes("--detach", train->is_detached, &words);
    AddOverrides(train->overrides, &words);
    return words;
  }
  const ResumeOrder& resume = std::get<ResumeOrder>(order);
  AddIf("--resume", resume.from, &words);
  AddYes("--trust-launch", resume.is_trusted, &words);
  AddYes("--json", resume.is_json, &words);
  AddYes("--detach", resume.is_detached, &words);
  AddOverrides(resume.overrides, &words);
  return words;
}

Result<CoordinatorOrder> ParseOrder(int argc, const char* const* argv) {
  const char* const* const end = argv + argc;
  const char* const* const rest = std::find(argv, end, std::string_view("--"));
  PS_ASSIGN(
      const Flags flags, Flags::Parse(static_cast<int>(rest - argv), argv, CoordinatorManual()));
  PS_ASSIGN(auto overrides, ReadOverrides(rest == end ? end : rest + 1, end));
  PS_ASSIGN(const bool is_json, IsWanted(flags, "json"));
  PS_ASSIGN(const bool is_detached, IsWanted(flags, "detach"));
  if (flags.Has("job") == flags.Has("resume")) {
    return Status::InvalidArgument("one of --job and --resume says what to coordinate");
  }
  if (flags.Has("resume")) {
    ResumeOrder resume;
    resume.from = flags.TextOr("resume", "");
    resume.overrides = std::move(overrides);
    resume.is_json = is_json;
    resume.is_detached = is_detached;
    PS_ASSIGN(resume.is_trusted, IsWanted(flags, "trust-launch"));
    return CoordinatorOrder(std::move(resume));
  }
  TrainOrder train;
  train.job_path = flags.TextOr("job", "");
  train.overrides = std::move(overrides);
  train.is_json = is_json;
  train.is_detached = is_detached;
  train.plan_path = flags.TextOr("plan", "");
  train.profile_path = flags.TextOr("profile", "");
  PS_ASSIGN(train.no_refine, IsWanted(flags, "no-refine"));
  return CoordinatorOrder(std::move(train));
}

Manual CoordinatorManual() {
  return {
      "ps_coordinator",
      "coordinates a run of a spotps job",
      "--job FILE | --resume RUN [FLAGS] [-- KEY=VALUE ...]",
      {{"Description",
        "",
        "psctl train and psctl resume become this program. It watches over a process of its own "
        "that coordinates the run, starts the job's servers and workers, and starts another one "
        "when it is killed. Words after -- change fields of the job.",
        {},
        {}},
       {"Flags",
        "",
        "",
        {{"--job", "FILE", "The job to run. Required where --resume is missing."},
         {"--resume", "RUN", "A run to go on with, a checkpoint path, or a place of copies."},
         {"--plan", "FILE", "A plan whose fleet is to run. Default: the job's own."},
         {"--profile",
          "FILE",
          "The profile that the run refines. Default: profile.json if it is there."},
         {"--no-refine", kYes, "Leave the profile as it is."},
         {"--trust-launch", kYes, "Start what the job of a copy names."},
         {"--json", kYes, "Print the summary as JSON."},
         {"--detach", kYes, "Return when the run listens; it goes on by itself."}},
        {}},
       {"Other flags",
        "",
        "",
        {{"-h, --help", "", "This text."},
         {"--man", "", "The same as a man page."},
         {"--version", "", "The version."}},
        {}},
       {"Exit codes", "", "0 done, 1 failed, 2 misused.", {}, {}}}};
}

Status BecomeCoordinator(const CoordinatorOrder& order) {
  std::string program = ProgramDirectory() + "/ps_coordinator";
  std::vector<std::string> words = WordsOf(order);
  std::vector<char*> arguments = {program.data()};
  for (std::string& word : words) {
    arguments.push_back(word.data());
  }
  arguments.push_back(nullptr);
  ::execv(program.c_str(), arguments.data());
  return IoError("cannot start", program);
}

}  // namespace ps::run
