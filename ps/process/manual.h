#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ps {

/// A flag or a positional argument of a program.
struct ManualFlag {
  std::string name;   // "--seat", "-o, --output", "JOB.json"
  std::string value;  // "N", "HOST:PORT"; empty: takes none
  std::string text;   // what it does, and what holds without it
};

struct ManualSection {
  std::string title;               // "Flags", "psctl catalog show"
  std::string synopsis;            // how the command of this section is typed; may be empty
  std::string text;                // paragraphs, an empty line between them
  std::vector<ManualFlag> flags;   // in the order of the help
  std::vector<std::string> lines;  // shown as they are, e.g. examples
};

/// What a program says of itself: the source of its --help and of its man page.
struct Manual {
  std::string program;
  std::string summary;   // one line without a full stop, as in "one worker of a spotps job"
  std::string synopsis;  // without the program's name
  std::vector<ManualSection> sections;
};

/// Plain text, at most 100 columns where words allow it.
std::string RenderHelp(const Manual& manual);

/// A man page of section 1, as roff. Flags and texts are shown as they are: nothing in them is
/// taken for a roff command.
std::string RenderManPage(const Manual& manual, std::string_view version);

/// `text` broken at blanks into lines of at most `width` columns, each after `indent` blanks. Line
/// breaks of the text stay. Ends with a line break.
std::string WrapText(std::string_view text, size_t indent, size_t width);

}  // namespace ps
