#include "psctl/cli/arguments.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <utility>

#include "ps/base/text.h"
#include "run/planning/plan_arguments.h"

namespace ps::psctl {
namespace {

bool IsFlag(const std::string& names) {
  return names.starts_with('-');
}

template <typename T>
Argument AddOption(CLI::App* app, const std::string& names, T* value, const std::string& help) {
  return {app, app->add_option(names, *value, help)};
}

template <typename T>
Argument AddList(CLI::App* app, const std::string& names, T* values, const std::string& help) {
  CLI::Option* const option = app->add_option(names, *values, help);
  if (IsFlag(names)) {
    option->allow_extra_args(false);
  }
  return {app, option};
}

Result<proto::ConfigOverride> ParseSetting(const std::string& setting) {
  const size_t equals = setting.find('=');
  if (equals == std::string::npos || equals == 0) {
    return Status::InvalidArgument(fmt::format(
        "--set wants KEY=VALUE, as in --set train.epochs=2; got '{}'", Printable(setting)));
  }
  return proto::ConfigOverride{setting.substr(0, equals), setting.substr(equals + 1)};
}

}  // namespace

Argument Argument::Required() {
  option_->required();
  return *this;
}

Argument Argument::Value(const std::string& name) {
  option_->type_name(name);
  return *this;
}

Argument Argument::Separated() {
  option_->delimiter(',');
  return *this;
}

Argument Argument::Needs(const std::string& other) {
  option_->needs(app_->get_option(other));
  return *this;
}

Argument Argument::Excludes(const std::string& other) {
  option_->excludes(app_->get_option(other));
  return *this;
}

bool Argument::is_given() const {
  return option_->count() > 0;
}

Argument Arguments::Add(const std::string& names, bool* value, const std::string& help) {
  return {app_, app_->add_flag(names, *value, help)};
}

Argument Arguments::Add(const std::string& names, std::string* value, const std::string& help) {
  return AddOption(app_, names, value, help);
}

Argument Arguments::Add(const std::string& names, double* value, const std::string& help) {
  return AddOption(app_, names, value, help);
}

Argument Arguments::Add(
    const std::string& names, std::optional<double>* value, const std::string& help) {
  return AddOption(app_, names, value, help);
}

Argument Arguments::Add(const std::string& names, int* value, const std::string& help) {
  return AddOption(app_, names, value, help);
}

Argument Arguments::Add(const std::string& names, uint32_t* value, const std::string& help) {
  return AddOption(app_, names, value, help);
}

Argument Arguments::Add(const std::string& names, uint64_t* value, const std::string& help) {
  return AddOption(app_, names, value, help);
}

Argument Arguments::Add(
    const std::string& names, std::vector<std::string>* values, const std::string& help) {
  return AddList(app_, names, values, help);
}

Argument Arguments::Add(
    const std::string& names, std::vector<int>* values, const std::string& help) {
  return AddList(app_, names, values, help);
}

Argument Arguments::AddText(
    const std::string& names,
    std::function<Status(const std::string& text)> take,
    const std::string& help) {
  std::string* const text = &texts_.emplace_back();
  CLI::Option* const option = app_->add_option(names, *text, help);
  checks_.push_back([text, option, take = std::move(take)] {
    return option->count() > 0 ? take(*text) : Status::Ok();
  });
  return {app_, option};
}

Argument Arguments::AddDuration(
    const std::string& names, double* seconds, const std::string& help) {
  return AddText(
      names,
      [names, seconds](const std::string& text) -> Status {
        PS_ASSIGN(*seconds, run::ParseDuration(names, text));
        return Status::Ok();
      },
      help);
}

Argument Arguments::AddDurationOrZero(
    const std::string& names, double* seconds, const std::string& help) {
  return AddText(
      names,
      [names, seconds](const std::string& text) -> Status {
        PS_ASSIGN(*seconds, run::ParseDurationOrZero(names, text));
        return Status::Ok();
      },
      help);
}

void Arguments::AddSettings(std::vector<proto::ConfigOverride>* settings, const std::string& help) {
  std::vector<std::string>* const texts = &lists_.emplace_back();
  Add("--set", texts, help).Value("KEY=VALUE");
  checks_.push_back([texts, settings]() -> Status {
    for (const std::string& text : *texts) {
      PS_ASSIGN(proto::ConfigOverride setting, ParseSetting(text));
      settings->push_back(std::move(setting));
    }
    return Status::Ok();
  });
}

void Arguments::AddRun(std::string* job) {
  Add("JOB", job, "Job name or run directory; not needed when one job is running");
}

Status Arguments::Finish() const {
  for (const auto& check : checks_) {
    PS_TRY(check());
  }
  return Status::Ok();
}

}  // namespace ps::psctl
