#include "psctl/cli/misuse.h"

#include <fmt/core.h>

#include <algorithm>
#include <string_view>

#include "ps/base/text.h"
#include "psctl/cli/command_line.h"

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

/// Whether it takes words of its own, beside its commands.
bool HasPositionals(const CLI::App& app) {
  return std::ranges::any_of(
      app.get_options(), [](const CLI::Option* option) { return option->get_positional(); });
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

/// What is missing, by the name under which it is typed: the first that is required.
std::string MissingArgument(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_required() && option->count() == 0) {
      return option->get_positional() ? option->get_name(true, false) : option->get_name();
    }
  }
  return "";
}

/// The first one; empty where the command has none.
std::string ExampleOf(const std::string& path, Commands commands) {
  for (const Command* command : commands) {
    if (command->path == path) {
      return std::string(command->examples.front().typed);
    }
  }
  return "";
}

}  // namespace

std::string FullName(const CLI::App& app) {
  const CLI::App* parent = app.get_parent();
  return parent == nullptr || parent->get_parent() == nullptr
             ? app.get_name()
             : FullName(*parent) + " " + app.get_name();
}

Status CheckIsCommandOf(const CLI::App& scope, const std::string& name) {
  const std::vector<std::string> known = SubcommandNames(scope);
  return known.empty()
             ? Status::InvalidArgument(fmt::format(
                   "unknown command '{}'; {} has no commands", Printable(name), FullName(scope)))
             : CheckOneOf("command", name, known);
}

Status CheckNames(const CLI::App& app, const std::vector<std::string>& arguments) {
  const CLI::App* scope = &app;
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
      const bool is_command = std::find(known.begin(), known.end(), argument) != known.end();
      if (!is_command && !HasPositionals(*scope)) {
        return UnknownName("command", argument, known);
      }
      scope = is_command ? scope->get_subcommand(argument) : scope;
    }
  }
  return Status::Ok();
}

Status CheckOneOf(
    const std::string& kind, const std::string& name, const std::vector<std::string>& known) {
  return std::find(known.begin(), known.end(), name) == known.end() ? UnknownName(kind, name, known)
                                                                    : Status::Ok();
}

Status MisuseOf(const CLI::ParseError& error, const CLI::App& app, Commands commands) {
  std::string text = error.what();
  std::replace(text.begin(), text.end(), '\n', ' ');
  text = Printable(text);  // it quotes what was typed
  const CLI::App& chosen = ChosenOf(app);
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    if (const auto names = SubcommandNames(chosen); !names.empty()) {
      text = "no command" + (&chosen == &app ? "" : " after " + FullName(chosen)) +
             "; there are: " + Join(names) + "; try psctl --help";
    } else {
      const std::string name = FullName(chosen);
      const std::string missing = MissingArgument(chosen);
      const std::string example = ExampleOf(name, commands);
      text = name + (missing.empty() ? ": " + text : " wants " + missing) +
             (example.empty() ? "; try psctl " + name + " --help" : ", as in: " + example);
    }
  } else if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    const std::vector<std::string> extras = app.remaining(true);
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
