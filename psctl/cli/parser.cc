#include "psctl/cli/parser.h"

#include <utility>

#include "psctl/cli/command_line.h"

namespace ps::psctl {
namespace {

constexpr size_t kTypedColumns = 46;

const char* TitleOf(Group group) {
  switch (group) {
    case Group::kRun:
      return "Run a job";
    case Group::kWatch:
      return "Watch it";
    case Group::kSteer:
      return "Change it while it runs";
    case Group::kKeep:
      return "Use what it left";
    case Group::kPlan:
      return "Plan its fleet";
    case Group::kMeasure:
      return "Measure and simulate";
    case Group::kHelp:
      return "Help";
  }
  return "";
}

std::string ExamplesText(const std::vector<std::string>& lines) {
  std::string text = "Examples:\n";
  for (const std::string& line : lines) {
    text += "  " + line + "\n";
  }
  return text;
}

/// The first example of each command that is of no family.
std::string FooterOf(Commands commands) {
  std::vector<std::string> lines;
  for (const Command* command : commands) {
    const std::vector<std::string> all = ExampleLines(*command);
    if (!all.empty() && FamilyOf(command->path).empty()) {
      lines.push_back(all.front());
    }
  }
  return ExamplesText(lines) + "\nExit codes: " + std::string(kExitCodes) + "\n";
}

}  // namespace

std::vector<std::string> ExampleLines(const Command& command) {
  std::vector<std::string> lines;
  for (const Example& example : command.examples) {
    if (example.typed.empty()) {
      continue;
    }
    std::string line(example.typed);
    if (line.size() >= kTypedColumns) {
      lines.push_back(line);
      line.clear();
    }
    line.resize(kTypedColumns, ' ');
    lines.push_back(line + std::string(example.text));
  }
  return lines;
}

Parser::Parser(Commands commands)
    : app("Trains models with a parameter server on unequal workers that come and go.", "psctl") {
  app.set_help_flag("-h,--help", "Show this help");
  app.set_version_flag("--version", "psctl " PS_VERSION, "Show the version");
  app.require_subcommand(1);
  for (const Command* command : commands) {
    const std::string family(FamilyOf(command->path));
    CLI::App* const parent = family.empty() ? &app : app.get_subcommand(family);
    CLI::App* const added =
        parent->add_subcommand(std::string(LastWord(command->path)), std::string(command->help));
    if (family.empty()) {
      added->group(TitleOf(command->group));
    }
    if (const std::vector<std::string> lines = ExampleLines(*command); !lines.empty()) {
      added->footer(ExamplesText(lines));
    }
    if (command->declare == nullptr) {
      added->require_subcommand(1);
      continue;
    }
    Entry& entry = entries_.emplace_back(Entry{added, Arguments(added), nullptr});
    entry.invocation = command->declare(&entry.arguments);
  }
  app.footer(FooterOf(commands));  // last: it is inherited
}

Result<std::unique_ptr<Invocation>> Parser::TakeParsed() {
  for (Entry& entry : entries_) {
    if (entry.app->parsed() && entry.app->get_subcommands().empty()) {  // the innermost
      PS_TRY(entry.arguments.Finish());
      return std::move(entry.invocation);
    }
  }
  return Status::InvalidArgument("no command");
}

}  // namespace ps::psctl
