#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ps/process/manual.h"

namespace ps::psctl {

// The commands as a table without the library that parses them. Help, man page and completion are
// made of it, so that a command is described once, where it is added to the parser.

/// A flag or a positional argument.
struct ArgumentText {
  std::vector<std::string> names;  // "-o", "--output"; of a positional "JOB.json"
  std::string value;               // "FILE"; empty: a flag without a value
  std::string text;
  bool is_positional = false;
  bool is_required = false;
};

struct CommandText {
  std::string path;  // "" for psctl itself, "train", "catalog show"
  std::string text;  // one line
  std::vector<ArgumentText> arguments;
  std::vector<CommandText> commands;
};

/// The last word of its path.
std::string_view NameOf(const CommandText& command);

/// The values that may follow: "bash|zsh" is bash and zsh. Empty: any.
std::vector<std::string> ChoicesOf(const ArgumentText& argument);

/// The man page of psctl with all its commands. `examples` and `closing` end it.
Manual ManualOf(
    const CommandText& psctl, const std::vector<std::string>& examples, const std::string& closing);

// Scripts that complete what is typed: commands, flags, the names of runs, and files elsewhere.

std::string BashCompletion(const CommandText& psctl);
std::string ZshCompletion(const CommandText& psctl);

}  // namespace ps::psctl
