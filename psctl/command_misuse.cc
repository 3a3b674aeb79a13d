#include "psctl/command_misuse.h"

#include <algorithm>

#include "ps/base/text.h"

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

Status UnknownName(
    const std::string& kind, const std::string& name, const std::vector<std::string>& known) {
  const std::string nearest = NearestName(name, known);
  return Status::InvalidArgument(
      "unknown " + kind + " '" + Printable(name) + "'; " +
      (nearest.empty() ? "there are: " + Join(known) : "did you mean '" + nearest + "'?"));
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

}  // namespace

Status CheckNames(const CommandParser& parser, const std::vector<std::string>& arguments) {
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
  const CLI::App& chosen = ChosenOf(parser.app);
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    if (const auto names = SubcommandNames(chosen); !names.empty()) {
      text = "no command" + (&chosen == &parser.app ? "" : " after " + FullName(chosen)) +
             "; there are: " + Join(names) + "; try psctl --help";
    } else if (&chosen == parser.train) {
      text = "train wants a job file, as in: psctl train JOB.json";
    } else {
      text = FullName(chosen) + ": " + text + "; try psctl " + FullName(chosen) + " --help";
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
