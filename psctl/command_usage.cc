#include "psctl/command_usage.h"

#include <fmt/core.h>

#include <algorithm>
#include <string_view>

#include "ps/base/text.h"
#include "psctl/command_parser.h"

namespace ps::psctl {
namespace {

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
    for (const std::string& name : option->get_snames()) {
      names.push_back("-" + name);
    }
  }
  return names;
}

/// "-5", "-5m": of no flag, since none begins with a digit.
bool IsNegativeNumber(const std::string& argument) {
  return argument.size() > 1 && argument[0] == '-' && argument[1] >= '0' && argument[1] <= '9';
}

Status UnknownName(
    const std::string& kind, const std::string& name, const std::vector<std::string>& known) {
  const std::string nearest = NearestName(name, known);
  return Status::InvalidArgument(fmt::format(
      "unknown {} '{}'; {}",
      kind,
      Printable(name),
      nearest.empty() ? "there are: " + Join(known) : "did you mean '" + nearest + "'?"));
}

/// The innermost command that was named.
const CLI::App& ChosenOf(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return chosen.empty() ? app : ChosenOf(*chosen.front());
}

/// "train", "catalog show"
std::string FullName(const CLI::App& app) {
  const CLI::App* parent = app.get_parent();
  return parent == nullptr || parent->get_parent() == nullptr
             ? app.get_name()
             : FullName(*parent) + " " + app.get_name();
}

/// A flag that is a positional argument as well is two arguments.
void AddArguments(const CLI::Option& option, std::vector<ArgumentText>* arguments) {
  const std::string value = option.get_expected_max() == 0 ? "" : option.get_type_name();
  if (option.get_positional()) {
    const std::string name = option.get_name(true, false);
    arguments->push_back({{name}, "", option.get_description(), true, option.get_required()});
  }
  ArgumentText flag = {{}, value, option.get_description(), false, false};
  for (const std::string& name : option.get_snames()) {
    flag.names.push_back("-" + name);
  }
  for (const std::string& name : option.get_lnames()) {
    flag.names.push_back("--" + name);
  }
  if (!flag.names.empty()) {
    arguments->push_back(std::move(flag));
  }
}

CommandText DescribeCommand(const CLI::App& app) {
  const bool is_root = app.get_parent() == nullptr;
  CommandText text = {is_root ? "" : FullName(app), app.get_description(), {}, {}};
  for (const CLI::Option* option : app.get_options()) {
    AddArguments(*option, &text.arguments);
  }
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    text.commands.push_back(DescribeCommand(*sub));
  }
  return text;
}

/// What is missing, by the name under which it is typed: the first that is required.
std::string MissingArgument(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_required() && option->count() == 0) {
      return option->get_positional() ? option->get_name(true, false) : option->get_name();
    }
  }
  return "";
}

}  // namespace

CommandText DescribeCommands(const CommandParser& parser) {
  return DescribeCommand(parser.app);
}

Result<std::string> HelpText(const std::vector<std::string>& path) {
  const CommandParser parser;  // one that has parsed nothing, or it tells of what it has parsed
  const CLI::App* scope = &parser.app;
  std::string above;
  for (const std::string& name : path) {
    const std::vector<std::string> known = SubcommandNames(*scope);
    if (known.empty()) {
      return Status::InvalidArgument(fmt::format(
          "unknown command '{}'; {} has no commands", Printable(name), FullName(*scope)));
    }
    if (std::ranges::find(known, name) == known.end()) {
      return UnknownName("command", name, known);
    }
    above += (above.empty() ? "" : " ") + scope->get_name();
    scope = scope->get_subcommand(name);
  }
  return scope->help(above);
}

std::string ManPage() {
  return RenderManPage(
      ManualOf(
          DescribeCommands(CommandParser()), CommandParser::Examples(), std::string(kExitCodes)),
      PS_VERSION);
}

Status CheckNames(const CommandParser& parser, const std::vector<std::string>& arguments) {
  const CLI::App* scope = &parser.app;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    const bool is_value = i > 0 && IsNegativeNumber(argument) && arguments[i - 1].starts_with("--");
    if (is_value) {
      continue;  // the flag says what is wrong with it
    }
    if (argument.size() > 1 && argument.front() == '-') {
      const std::string name = argument.substr(0, argument.find('='));
      const std::vector<std::string> known = FlagNames(*scope);
      if (std::find(known.begin(), known.end(), name) == known.end()) {
        return UnknownName("flag", name, known);
      }
      if (name == "--set" && name == argument) {
        ++i;  // its value may begin with a dash
      }
    } else if (const std::vector<std::string> known = SubcommandNames(*scope); !known.empty()) {
      if (std::find(known.begin(), known.end(), argument) == known.end()) {
        return UnknownName("command", argument, known);
      }
      scope = scope->get_subcommand(argument);
    }
  }
  return Status::Ok();
}

Status CheckOneOf(
    const std::string& kind, const std::string& name, const std::vector<std::string>& known) {
  return std::find(known.begin(), known.end(), name) == known.end() ? UnknownName(kind, name, known)
                                                                    : Status::Ok();
}

Status MisuseOf(const CLI::ParseError& error, const CommandParser& parser) {
  std::string text = error.what();
  std::replace(text.begin(), text.end(), '\n', ' ');
  text = Printable(text);  // it quotes what was typed
  const CLI::App& chosen = ChosenOf(parser.app);
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    if (const auto names = SubcommandNames(chosen); !names.empty()) {
      text = "no command" + (&chosen == &parser.app ? "" : " after " + FullName(chosen)) +
             "; there are: " + Join(names) + "; try psctl --help";
    } else if (&chosen == parser.train) {
      text = "train wants a job file, as in: psctl train JOB.json";
    } else {
      const std::string missing = MissingArgument(chosen);
      text = FullName(chosen) + (missing.empty() ? ": " + text : " wants " + missing) +
             "; try psctl " + FullName(chosen) + " --help";
    }
  } else if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    const std::vector<std::string> extras = parser.app.remaining(true);
    text = "too many arguments for " + FullName(chosen) +
           (extras.empty() ? "" : ": '" + Printable(extras.front()) + "'");
  } else if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    text = text.substr(0, text.find(':')) +
           (text.ends_with("missing") ? " needs a value" : " is given too often") + "; try psctl " +
           FullName(chosen) + " --help";
  }
  return Status::InvalidArgument(text);
}

}  // namespace ps::psctl
