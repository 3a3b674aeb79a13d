#include "psctl/cli/command_text.h"

#include <algorithm>

namespace ps::psctl {
namespace {

constexpr std::string_view kRunArgument = "JOB";          // completed with runs
constexpr std::string_view kCommandArgument = "COMMAND";  // completed with commands

/// "-o, --output"
std::string NamesText(const ArgumentText& argument) {
  std::string text;
  for (const std::string& name : argument.names) {
    text += (text.empty() ? "" : ", ") + name;
  }
  return text;
}

std::string SynopsisOf(const CommandText& command) {
  std::string text = "psctl" + (command.path.empty() ? "" : " " + command.path);
  const bool has_words = std::ranges::any_of(command.arguments, &ArgumentText::is_positional);
  if (!command.commands.empty() && !has_words) {
    return text + " COMMAND";
  }
  for (const ArgumentText& argument : command.arguments) {
    if (argument.is_positional) {
      const std::string& name = argument.names.front();
      text += argument.is_required ? " " + name : " [" + name + "]";
    }
  }
  return text + " [FLAGS]";
}

void AddSections(const CommandText& command, Manual* manual) {
  const bool has_words = std::ranges::any_of(command.arguments, &ArgumentText::is_positional);
  if (!command.path.empty() && (command.commands.empty() || has_words)) {
    ManualSection section = {"psctl " + command.path, SynopsisOf(command), command.text, {}, {}};
    for (const ArgumentText& argument : command.arguments) {
      if (argument.names.back() != "--help") {
        section.flags.push_back({NamesText(argument), argument.value, argument.text});
      }
    }
    manual->sections.push_back(std::move(section));
  }
  for (const CommandText& sub : command.commands) {
    AddSections(sub, manual);
  }
}

/// All commands, psctl itself first.
std::vector<const CommandText*> Flatten(const CommandText& command) {
  std::vector<const CommandText*> all = {&command};
  for (const CommandText& sub : command.commands) {
    const std::vector<const CommandText*> below = Flatten(sub);
    all.insert(all.end(), below.begin(), below.end());
  }
  return all;
}

bool HasPositional(const CommandText& command, std::string_view name) {
  return std::ranges::any_of(command.arguments, [&](const ArgumentText& argument) {
    return argument.is_positional && argument.names.front() == name;
  });
}

/// What may stand at the place of a positional argument: commands and choices, with what they are.
std::vector<std::pair<std::string, std::string>> WordsOf(
    const CommandText& command, const CommandText& psctl) {
  std::vector<std::pair<std::string, std::string>> words;
  const bool names_command = HasPositional(command, kCommandArgument);
  for (const CommandText& sub : names_command ? psctl.commands : command.commands) {
    words.emplace_back(NameOf(sub), sub.text);
  }
  for (const ArgumentText& argument : command.arguments) {
    for (const std::string& choice :
         argument.is_positional ? ChoicesOf(argument) : std::vector<std::string>()) {
      words.emplace_back(choice, "");
    }
  }
  return words;
}

std::vector<std::pair<std::string, std::string>> FlagsOf(const CommandText& command) {
  std::vector<std::pair<std::string, std::string>> flags;
  for (const ArgumentText& argument : command.arguments) {
    for (const std::string& name : argument.names) {
      if (name.starts_with('-')) {
        flags.emplace_back(name, argument.text);
      }
    }
  }
  return flags;
}

/// The words so far that name a command: a shell `case` over "<command so far> <word>".
std::string PathCase(const CommandText& psctl, std::string_view indent) {
  std::string pattern;
  for (const CommandText* command : Flatten(psctl)) {
    if (!command->path.empty()) {
      const bool is_top = command->path.find(' ') == std::string::npos;
      pattern += std::string(pattern.empty() ? "" : " | ") + "'" + (is_top ? " " : "") +
                 command->path + "'";
    }
  }
  return std::string(indent) + pattern + ") at=\"${at:+$at }$word\" ;;\n";
}

/// In single quotes, for both shells.
std::string ShellQuoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return out + "'";
}

/// 'name:text' as zsh's _describe wants it.
std::string Described(const std::vector<std::pair<std::string, std::string>>& words) {
  std::string out;
  for (const auto& [name, text] : words) {
    out += (out.empty() ? "" : " ") + ShellQuoted(name + ":" + text);
  }
  return out;
}

std::string Names(const std::vector<std::pair<std::string, std::string>>& words) {
  std::string out;
  for (const auto& [name, text] : words) {
    out += (out.empty() ? "" : " ") + name;
  }
  return out;
}

}  // namespace

std::string_view NameOf(const CommandText& command) {
  const size_t blank = command.path.rfind(' ');
  return std::string_view(command.path).substr(blank == std::string::npos ? 0 : blank + 1);
}

std::vector<std::string> ChoicesOf(const ArgumentText& argument) {
  std::vector<std::string> choices;
  const std::string& text = argument.is_positional ? argument.names.front() : argument.value;
  if (text.find('|') == std::string::npos) {
    return choices;
  }
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('|', begin), text.size());
    choices.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return choices;
}

Manual ManualOf(
    const CommandText& psctl,
    const std::vector<std::string>& examples,
    const std::string& closing) {
  Manual manual = {"psctl", "runs, watches and plans training jobs", "COMMAND [ARGUMENTS]", {}};
  manual.sections.push_back({"Description", "", psctl.text, {}, {}});
  ManualSection commands = {"Commands", "", "", {}, {}};
  for (const CommandText& command : psctl.commands) {
    commands.flags.push_back({std::string(NameOf(command)), "", command.text});
  }
  manual.sections.push_back(std::move(commands));
  AddSections(psctl, &manual);
  manual.sections.push_back({"Examples", "", "", {}, examples});
  manual.sections.push_back({"Exit codes", "", closing, {}, {}});
  return manual;
}

std::string BashCompletion(const CommandText& psctl) {
  std::string out = R"sh(# bash completion for psctl; made by: psctl completion bash
_psctl() {
  local current="${COMP_WORDS[COMP_CWORD]}" at="" word words="" flags="" runs=""
  COMPREPLY=()
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "$at $word" in
)sh" + PathCase(psctl, "      ");
  out += R"sh(    esac
  done
  case "$at" in
)sh";
  for (const CommandText* command : Flatten(psctl)) {
    out += "    '" + command->path + "')";
    if (const auto words = WordsOf(*command, psctl); !words.empty()) {
      out += " words='" + Names(words) + "';";
    }
    out += " flags='" + Names(FlagsOf(*command)) + "'";
    out += HasPositional(*command, kRunArgument) ? "; runs=1 ;;\n" : " ;;\n";
  }
  out += R"sh(  esac
  if [[ $current == -* ]]; then
    words="$flags"
  elif [[ -n $runs ]]; then
    words="$(psctl runs --names 2> /dev/null)"
  fi
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}
complete -o default -F _psctl psctl
)sh";
  return out;
}

std::string ZshCompletion(const CommandText& psctl) {
  std::string out = R"sh(#compdef psctl
# zsh completion for psctl; made by: psctl completion zsh
_psctl() {
  local at="" word runs=""
  local -a commands flags
  for word in "${(@)words[2,CURRENT-1]}"; do
    case "$at $word" in
)sh" + PathCase(psctl, "      ");
  out += R"sh(    esac
  done
  case "$at" in
)sh";
  for (const CommandText* command : Flatten(psctl)) {
    out += "    '" + command->path + "')\n      commands=(" + Described(WordsOf(*command, psctl)) +
           ")\n      flags=(" + Described(FlagsOf(*command)) + ")\n";
    out += HasPositional(*command, kRunArgument) ? "      runs=1\n      ;;\n" : "      ;;\n";
  }
  out += R"sh(  esac
  if [[ $PREFIX == -* ]]; then
    _describe -o flag flags
  elif (( $#commands )); then
    _describe command commands
  elif [[ -n $runs ]]; then
    compadd -- ${(f)"$(psctl runs --names 2> /dev/null)"}
    _files -/
  else
    _files
  fi
}
if [[ $funcstack[1] == _psctl ]]; then
  _psctl "$@"
else
  compdef _psctl psctl
fi
)sh";
  return out;
}

}  // namespace ps::psctl
