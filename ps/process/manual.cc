#include "ps/process/manual.h"

#include <algorithm>

namespace ps {
namespace {

constexpr size_t kWidth = 100;
constexpr size_t kFlagColumn = 34;  // where the texts of flags begin

std::string TermOf(const ManualFlag& flag) {
  return flag.name + (flag.value.empty() ? "" : " " + flag.value);
}

/// The flag at the left, its text in a column of its own.
std::string HelpLine(const ManualFlag& flag) {
  std::string out = "  " + TermOf(flag);
  const std::string text = WrapText(flag.text, kFlagColumn, kWidth);
  if (out.size() + 2 > kFlagColumn) {
    return out + "\n" + text;
  }
  out.resize(kFlagColumn, ' ');
  return out + text.substr(kFlagColumn);
}

/// A roff text: a backslash, a dash and a leading dot or quote lose their meaning.
std::string Roff(std::string_view text) {
  std::string out;
  bool is_line_start = true;
  for (const char c : text) {
    if (is_line_start && (c == '.' || c == '\'')) {
      out += "\\&";
    }
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
    is_line_start = c == '\n';
  }
  return out;
}

std::string Upper(std::string text) {
  std::ranges::transform(text, text.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  return text;
}

void AppendSection(const ManualSection& section, std::string* out) {
  // Titles are in capitals, as in all man pages, unless they are commands to be typed.
  const bool is_command = !section.synopsis.empty();
  *out += (is_command ? ".SS \"" : ".SH \"") +
          Roff(is_command ? section.title : Upper(section.title)) + "\"\n";
  if (is_command) {
    *out += ".B " + Roff(section.synopsis) + "\n.PP\n";
  }
  if (!section.text.empty()) {
    std::string_view text = section.text;
    while (!text.empty()) {
      const size_t end = std::min(text.find("\n\n"), text.size());
      *out += Roff(text.substr(0, end)) + "\n.PP\n";
      text.remove_prefix(std::min(text.size(), end + 2));
    }
  }
  for (const ManualFlag& flag : section.flags) {
    *out += ".TP\n.B " + Roff(TermOf(flag)) + "\n" + Roff(flag.text) + "\n";
  }
  if (!section.lines.empty()) {
    *out += ".PP\n.nf\n";
    for (const std::string& line : section.lines) {
      *out += Roff(line) + "\n";
    }
    *out += ".fi\n";
  }
}

}  // namespace

std::string WrapText(std::string_view text, size_t indent, size_t width) {
  std::string out;
  while (true) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    std::string row(indent, ' ');
    bool is_empty = true;
    while (!line.empty()) {
      const size_t word_end = std::min(line.find(' '), line.size());
      const std::string_view word = line.substr(0, word_end);
      if (!is_empty && row.size() + 1 + word.size() > width) {
        out += row + "\n";
        row.assign(indent, ' ');
        is_empty = true;
      }
      row += is_empty ? "" : " ";
      row += word;
      is_empty = false;
      line.remove_prefix(std::min(line.size(), word_end + 1));
    }
    out += (is_empty ? "" : row) + "\n";
    if (end == text.size()) {
      return out;
    }
    text.remove_prefix(end + 1);
  }
}

std::string RenderHelp(const Manual& manual) {
  std::string out = manual.program + ": " + manual.summary + "\nUsage: " + manual.program + " " +
                    manual.synopsis + "\n";
  for (const ManualSection& section : manual.sections) {
    out += "\n" + section.title + ":\n";
    if (!section.text.empty()) {
      out += WrapText(section.text, 2, kWidth);
    }
    for (const ManualFlag& flag : section.flags) {
      out += HelpLine(flag);
    }
    for (const std::string& line : section.lines) {
      out += "  " + line + "\n";
    }
  }
  return out;
}

std::string RenderManPage(const Manual& manual, std::string_view version) {
  std::string out = ".TH " + Upper(manual.program) + " 1 \"\" \"spotps " + std::string(version) +
                    "\" \"spotps\"\n.SH NAME\n" + Roff(manual.program) + " \\- " +
                    Roff(manual.summary) + "\n.SH SYNOPSIS\n.B " + Roff(manual.program) + "\n" +
                    Roff(manual.synopsis) + "\n";
  for (const ManualSection& section : manual.sections) {
    AppendSection(section, &out);
  }
  return out;
}

}  // namespace ps
