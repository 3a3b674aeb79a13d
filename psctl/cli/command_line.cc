#include "psctl/cli/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <utility>

#include "ps/base/text.h"
#include "psctl/cli/arguments.h"
#include "psctl/cli/misuse.h"
#include "psctl/cli/parser.h"

namespace ps::psctl {
namespace {

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

std::unique_ptr<Invocation> Printing(std::string text) {
  auto invocation = std::make_unique<InvocationOf<std::string>>(
      [](const std::string& printed, const Session& session) {
        session.console.out(printed);
        return run::kExitOk;
      });
  invocation->values = std::move(text);
  return invocation;
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

}  // namespace

Result<std::unique_ptr<Invocation>> ParseCommandLine(
    Commands commands, const std::vector<std::string>& arguments) {
  Parser parser(commands);
  std::vector<std::string> split = SplitSettings(arguments);
  PS_TRY(CheckNames(parser.app, split));
  std::reverse(split.begin(), split.end());  // as CLI11 takes a vector
  try {
    parser.app.parse(split);
  } catch (const CLI::CallForHelp&) {
    return Printing(parser.app.help());  // of the command that was named, if any
  } catch (const CLI::CallForVersion& version) {
    return Printing(std::string(version.what()) + "\n");
  } catch (const CLI::ParseError& error) {
    return MisuseOf(error, parser.app, commands);
  }
  return parser.TakeParsed();
}

Result<std::string> HelpText(Commands commands, const std::vector<std::string>& path) {
  const Parser parser(commands);  // one that has parsed nothing, or it tells of what it has parsed
  const CLI::App* scope = &parser.app;
  std::string above;
  for (const std::string& name : path) {
    PS_TRY(CheckIsCommandOf(*scope, name));
    above += (above.empty() ? "" : " ") + scope->get_name();
    scope = scope->get_subcommand(name);
  }
  return scope->help(above);
}

CommandText DescribeCommands(Commands commands) {
  const Parser parser(commands);
  return DescribeCommand(parser.app);
}

std::string ManPage(Commands commands) {
  std::vector<std::string> examples;
  for (const Command* command : commands) {
    for (const std::string& line : ExampleLines(*command)) {
      examples.push_back(line);
    }
  }
  return RenderManPage(
      ManualOf(DescribeCommands(commands), examples, std::string(kExitCodes)), PS_VERSION);
}

}  // namespace ps::psctl
