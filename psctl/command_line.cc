#include "psctl/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <optional>
#include <string_view>

#include "psctl/text.h"
#include "psctl/version.h"

namespace ps::psctl {
namespace {

constexpr std::string_view kExamples =
    R"(Examples:
  psctl train configs/fashion_mnist_cnn.json           run a job; Ctrl-C ends it cleanly
  psctl train job.json --set train.epochs=1            change a field for this run
  psctl train job.json --print-config                  show the config as it would be used
  psctl train job.json --json > summary.json           the summary for programs
  psctl status                                         running jobs, from any terminal
  psctl status runs/mnist-20240131-120000              one run, ended ones too
  psctl why                                            who waits for whom, since when
  psctl stop fashion-mnist-cnn                         end a job after the steps in hand

Exit codes: 0 done, 1 failed, 2 misused. Results go to stdout, progress and logs to stderr.
)";

constexpr const char* kJobHelp = "Job name or run directory; not needed when one job is running";

/// The parser and what it fills in.
struct Parser {
  CLI::App app{
      "Trains models with a parameter server on unequal workers that come and go.", "psctl"};
  CLI::App* train = nullptr;
  CLI::App* status = nullptr;
  CLI::App* why = nullptr;
  CLI::App* stop = nullptr;
  TrainCommand train_command;
  StatusCommand status_command;
  WhyCommand why_command;
  StopCommand stop_command;
  std::vector<std::string> settings;

  Parser() {
    app.set_help_flag("--help", "Show this help");
    app.set_version_flag("--version", std::string("psctl ") + kVersion);
    app.footer(std::string(kExamples));
    app.require_subcommand(1);
    train = app.add_subcommand("train", "Run a job to its end");
    train->add_option("JOB.json", train_command.job_path, "Job file; configs/job.fbs is its manual")
        ->required();
    train
        ->add_option(
            "--set", settings, "Change a field of the job: --set train.epochs=2 train.seed=7")
        ->type_name("KEY=VALUE")
        ->allow_extra_args(false);
    train->add_flag("--json", train_command.is_json, "Print the summary as JSON");
    train->add_flag(
        "--print-config",
        train_command.only_prints_config,
        "Print the job as resolved, run nothing");
    status = app.add_subcommand("status", "Show workers, servers, staleness and ledger of a job");
    status->add_option("JOB", status_command.job, kJobHelp);
    status->add_flag("--json", status_command.is_json, "Print JSON");
    why = app.add_subcommand("why", "Say who waits for whom, since when, and the times in force");
    why->add_option("JOB", why_command.job, kJobHelp);
    stop = app.add_subcommand("stop", "End a running job after the steps in hand");
    stop->add_option("JOB", stop_command.job, kJobHelp);
    for (CLI::App* sub : {train, status, why, stop}) {
      sub->footer("");  // else it inherits the examples
    }
    stop->add_flag("--now", stop_command.is_immediate, "End it at once");
  }
};

std::vector<std::string> SubcommandNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(sub->get_name());
  }
  return names;
}

std::vector<std::string> FlagNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      names.push_back("--" + name);
    }
  }
  return names;
}

std::string Join(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) {
    text += (text.empty() ? "" : ", ") + name;
  }
  return text;
}

Status UnknownName(
    const std::string& kind, const std::string& name, const std::vector<std::string>& known) {
  const std::string nearest = NearestName(name, known);
  return Status::InvalidArgument(
      "unknown " + kind + " '" + Printable(name) + "'; " +
      (nearest.empty() ? "there are: " + Join(known) : "did you mean '" + nearest + "'?"));
}

/// Mistyped names, looked for before CLI11 does, whose messages name no neighbour.
Status CheckNames(const Parser& parser, const std::vector<std::string>& arguments) {
  const CLI::App* scope = &parser.app;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument.size() > 1 && argument.front() == '-') {
      const std::string name = argument.substr(0, argument.find('='));
      const std::vector<std::string> known = FlagNames(*scope);
      if (std::find(known.begin(), known.end(), name) == known.end()) {
        return UnknownName("flag", name, known);
      }
      if (name == "--set" && name == argument) {
        ++i;  // its value may begin with a dash
      }
    } else if (scope == &parser.app) {
      const std::vector<std::string> known = SubcommandNames(parser.app);
      if (std::find(known.begin(), known.end(), argument) == known.end()) {
        return UnknownName("command", argument, known);
      }
      scope = parser.app.get_subcommand(argument);
    }
  }
  return Status::Ok();
}

/// `--set a=1 b=2` becomes `--set a=1 --set b=2`: what follows a setting and is one too.
std::vector<std::string> SplitSettings(const std::vector<std::string>& arguments) {
  std::vector<std::string> out;
  bool is_after_setting = false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument == "--set") {
      out.push_back(argument);
      if (i + 1 < arguments.size()) {
        out.push_back(arguments[++i]);
      }
      is_after_setting = true;
      continue;
    }
    const bool is_setting = is_after_setting && !argument.empty() && argument.front() != '-' &&
                            argument.find('=') != std::string::npos;
    if (is_setting) {
      out.emplace_back("--set");
    }
    is_after_setting = is_setting;
    out.push_back(argument);
  }
  return out;
}

Result<std::vector<proto::ConfigOverride>> ParseSettings(const std::vector<std::string>& settings) {
  std::vector<proto::ConfigOverride> overrides;
  for (const std::string& setting : settings) {
    const size_t equals = setting.find('=');
    if (equals == std::string::npos || equals == 0) {
      return Status::InvalidArgument(
          "--set wants KEY=VALUE, as in --set train.epochs=2; got '" + Printable(setting) + "'");
    }
    overrides.push_back({setting.substr(0, equals), setting.substr(equals + 1)});
  }
  return overrides;
}

/// CLI11's messages, as one line without its own punctuation.
Status MisuseOf(const CLI::ParseError& error, const Parser& parser) {
  std::string text = error.what();
  std::replace(text.begin(), text.end(), '\n', ' ');
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    text = parser.train->parsed() ? "train wants a job file, as in: psctl train JOB.json"
                                  : "no command; there are: " + Join(SubcommandNames(parser.app)) +
                                        "; try psctl --help";
  } else if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    const CLI::App* sub =
        parser.app.get_subcommands().empty() ? &parser.app : parser.app.get_subcommands().front();
    const std::vector<std::string> extras = parser.app.remaining(true);
    text = "too many arguments for " + sub->get_name() +
           (extras.empty() ? "" : ": '" + Printable(extras.front()) + "'");
  }
  return Status::InvalidArgument(text);
}

}  // namespace

Result<Command> ParseCommandLine(const std::vector<std::string>& arguments) {
  Parser parser;
  std::vector<std::string> split = SplitSettings(arguments);
  PS_TRY(CheckNames(parser, split));
  std::reverse(split.begin(), split.end());  // as CLI11 takes a vector
  try {
    parser.app.parse(split);
  } catch (const CLI::CallForHelp&) {
    const auto chosen = parser.app.get_subcommands();
    return Command(
        PrintCommand{chosen.empty() ? parser.app.help() : chosen.front()->help("psctl")});
  } catch (const CLI::CallForVersion& version) {
    return Command(PrintCommand{std::string(version.what()) + "\n"});
  } catch (const CLI::ParseError& error) {
    return MisuseOf(error, parser);
  }
  if (parser.train->parsed()) {
    PS_ASSIGN(parser.train_command.overrides, ParseSettings(parser.settings));
    return Command(parser.train_command);
  }
  if (parser.status->parsed()) {
    return Command(parser.status_command);
  }
  if (parser.why->parsed()) {
    return Command(parser.why_command);
  }
  return Command(parser.stop_command);
}

}  // namespace ps::psctl
