#include "psctl/view/claims_view.h"

#include <fmt/core.h>

#include <cstddef>
#include <functional>
#include <set>
#include <string_view>
#include <utility>

#include "ps/base/text.h"
#include "ps/json/json_writer.h"
#include "run/report/tables.h"

namespace ps::psctl {
namespace {

using provisioner::Better;
using provisioner::CheckedClaim;
using provisioner::Claim;
using provisioner::ClaimVerdict;

constexpr size_t kWidth = 120;
constexpr size_t kTextWidth = 57;
constexpr std::string_view kIndent = "       ";

/// The claims of one part; empty: there are none. `title`: of the column of what is claimed.
std::string TableOf(
    const std::vector<CheckedClaim>& claims,
    const std::string& title,
    const std::function<bool(const Claim&)>& is_in) {
  run::Table table(
      {{"row"},
       {"seed", run::Align::kLeft},
       {Clip(Printable(title), kTextWidth), run::Align::kLeft},
       {"published"},
       {"ours"},
       {"verdict", run::Align::kLeft}},
      kTextWidth);
  bool is_empty = true;
  for (size_t i = 0; i < claims.size(); ++i) {
    const Claim& claim = claims[i].claim;
    if (is_in(claim)) {
      is_empty = false;
      table.AddRow(
          {std::to_string(i + 1),
           claim.seed,
           Printable(claim.text),
           FigureText(claim, claim.published),
           FigureText(claim, claims[i].ours),
           VerdictName(claims[i].verdict)});
    }
  }
  return is_empty ? "" : table.Render();
}

/// Words in lines of kWidth, all but the first indented. `end`: behind a line that goes on.
std::string Wrapped(const std::string& first, std::string_view text, std::string_view end) {
  std::string all;
  std::string line = first;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    if (line.size() > kIndent.size() && line.size() + 1 + word.size() + end.size() > kWidth) {
      all += line + std::string(end) + "\n";
      line = kIndent;
    }
    line += line.size() > kIndent.size() ? " " : "";
    line += word;
    text.remove_prefix(std::min(text.size(), word.size() + 1));
  }
  return all + line + "\n";
}

std::string NoteOf(const CheckedClaim& checked) {
  const Claim& claim = checked.claim;
  return claim.why_not.empty() ? claim.how : "can't be checked: " + claim.why_not;
}

/// What is behind rows, once for rows that follow each other and have the same.
std::string NotesOf(const std::vector<CheckedClaim>& claims) {
  std::string text;
  for (size_t i = 0; i < claims.size();) {
    size_t end = i + 1;
    while (end < claims.size() && NoteOf(claims[end]) == NoteOf(claims[i]) &&
           claims[end].claim.command == claims[i].claim.command) {
      ++end;
    }
    const std::string rows =
        end == i + 1 ? std::to_string(i + 1) : fmt::format("{}-{}", i + 1, end);
    const std::string note = NoteOf(claims[i]);
    const std::string& command = claims[i].claim.command;
    const std::string first = fmt::format("{:>5}  ", rows);
    if (!note.empty()) {
      text += Wrapped(first, note, "");
    }
    if (!command.empty()) {
      text += Wrapped(note.empty() ? first : std::string(kIndent), command, " \\");
    }
    i = end;
  }
  return text;
}

std::string WorseThanRecorded(const std::vector<CheckedClaim>& claims) {
  std::string text;
  for (size_t i = 0; i < claims.size(); ++i) {
    if (claims[i].is_worse_than_recorded) {
      text += fmt::format(
          "row {} got worse: {} is recorded, it is {} now\n",
          i + 1,
          FigureText(claims[i].claim, claims[i].claim.recorded),
          FigureText(claims[i].claim, claims[i].ours));
    }
  }
  return text.empty() ? text : "\n" + text;
}

std::string_view BetterName(Better better) {
  switch (better) {
    case Better::kHigher:
      return "higher";
    case Better::kLower:
      return "lower";
    case Better::kNearer:
      break;
  }
  return "nearer to the published";
}

}  // namespace

std::string RenderClaims(const std::vector<CheckedClaim>& claims) {
  std::string text;
  const auto add = [&](const std::string& title, const std::function<bool(const Claim&)>& is_in) {
    const std::string table = TableOf(claims, title, is_in);
    text += (text.empty() || table.empty() ? "" : "\n") + table;
  };
  add("headline", &Claim::is_headline);
  add("claim", [](const Claim& claim) { return !claim.is_headline && claim.trace.empty(); });
  std::set<std::string> traces;
  for (const CheckedClaim& checked : claims) {
    const std::string& trace = checked.claim.trace;
    if (!trace.empty() && traces.insert(trace).second) {
      add("claim, on " + trace, [&](const Claim& claim) { return claim.trace == trace; });
    }
  }
  const std::string notes = NotesOf(claims);
  return text +
         (notes.empty() ? "" : "\nbehind the rows; psctl claims SEED computes each of them\n") +
         notes + WorseThanRecorded(claims);
}

std::string ClaimsJson(const std::vector<CheckedClaim>& claims) {
  JsonWriter json;
  json.BeginObject();
  json.BeginList("claims");
  for (const CheckedClaim& checked : claims) {
    const Claim& claim = checked.claim;
    json.BeginObject();
    json.Field("seed", claim.seed);
    json.Field("headline", claim.is_headline);
    json.Field("trace", claim.trace);
    json.Field("claim", claim.text);
    json.Field("unit", claim.unit.empty() ? claim.unit : claim.unit.substr(1));
    json.Field("better", BetterName(claim.better));
    json.Field("published", claim.published);
    json.Field("ours", checked.ours);
    json.Field("recorded", claim.recorded);
    json.Field("verdict", provisioner::VerdictName(checked.verdict));
    json.Field("worse_than_recorded", checked.is_worse_than_recorded);
    json.Field("why_not", claim.why_not);
    json.Field("how", claim.how);
    json.Field("command", claim.command.empty() ? "psctl claims " + claim.seed : claim.command);
    json.EndObject();
  }
  json.EndList();
  json.EndObject();
  return std::move(json).Take();
}

}  // namespace ps::psctl
