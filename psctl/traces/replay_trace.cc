#include "psctl/traces/replay_trace.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <chrono>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "ps/base/text.h"
#include "ps/json/json_value.h"

namespace ps::psctl {
namespace {

constexpr size_t kTraceStepsMax = 1'000'000;
constexpr double kTraceSecondsMax = 1e9;
constexpr double kPriceMax = 1e6;

template <typename T>
bool ParseWhole(std::string_view text, T* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size();
}

std::vector<std::string_view> SplitAt(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) {
      return parts;
    }
    text.remove_prefix(at + 1);
  }
}

std::string_view Trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(' ');
  return begin == std::string_view::npos
             ? std::string_view()
             : text.substr(begin, text.find_last_not_of(' ') + 1 - begin);
}

/// A table's lines without what programs write before them.
struct TableBody {
  std::string_view text;
  size_t lines_before = 0;
};

/// Whether each cell is a word that no line of a table has: "time", "\"nodes\"".
bool NamesColumns(std::string_view line) {
  const std::vector<std::string_view> cells = SplitAt(line, ',');
  return cells.size() > 1 && std::ranges::all_of(cells, [](std::string_view cell) {
           cell = Trimmed(cell);
           if (cell.size() > 2 && cell.front() == '"' && cell.back() == '"') {
             cell = cell.substr(1, cell.size() - 2);
           }
           double number = 0;
           return !cell.empty() && std::isalpha(static_cast<unsigned char>(cell.front())) != 0 &&
                  !ParseWhole(cell, &number) && cell != "add" && cell != "remove" && cell != "null";
         });
}

/// Leaves out a byte order mark, and a first line that names the columns.
TableBody BodyOf(std::string_view text) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  TableBody body = {text};
  body.text.remove_prefix(text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0);
  const size_t first = body.text.find_first_not_of("\r\n");
  if (first == std::string_view::npos) {
    return body;
  }
  const size_t end = std::min(body.text.find('\n', first), body.text.size() - 1);
  std::string_view line = body.text.substr(first, end + 1 - first);
  line = line.substr(0, line.find_last_not_of("\r\n") + 1);
  if (NamesColumns(line)) {
    const auto header = body.text.substr(0, end + 1);
    body.lines_before = static_cast<size_t>(std::ranges::count(header, '\n'));
    body.text.remove_prefix(end + 1);
  }
  return body;
}

/// Takes steps in order; of several at one time the last one counts.
class TraceBuilder {
 public:
  /// Errors: kInvalidArgument, without the place.
  Status Add(double at_s, uint64_t nodes) {
    if (!trace_.steps.empty() && at_s < trace_.end_s) {
      return Status::InvalidArgument(
          "the time is before that of the line above: sort the lines, or leave late ones out");
    }
    if (!(at_s >= 0 && at_s <= kTraceSecondsMax)) {
      return Status::InvalidArgument("the time is not within 0 and 1e9 s");
    }
    if (nodes > kTraceNodesMax) {
      return Status::InvalidArgument(
          fmt::format("{} machines; at most {} are taken", nodes, kTraceNodesMax));
    }
    if (trace_.steps.size() >= kTraceStepsMax) {
      return Status::InvalidArgument(fmt::format("more than {} steps", kTraceStepsMax));
    }
    trace_.end_s = at_s;
    auto& steps = trace_.steps;
    const auto count = static_cast<uint32_t>(nodes);
    if (steps.empty() && at_s > 0) {
      steps.push_back({0, 0});
    }
    if (!steps.empty() && steps.back().at_s == at_s) {
      steps.pop_back();
    }
    if (steps.empty() || steps.back().nodes != count) {
      steps.push_back({at_s, count});
    }
    return Status::Ok();
  }

  AvailabilityTrace Take(double end_s) {
    trace_.end_s = std::max(trace_.end_s, end_s);
    return std::move(trace_);
  }

 private:
  AvailabilityTrace trace_;
};

/// The machines that are there, by name.
class NamedNodes {
 public:
  /// Errors: kInvalidArgument, without the place.
  Status Change(bool is_add, std::string_view node) {
    const bool is_new = is_add ? nodes_.emplace(node).second : nodes_.erase(std::string(node)) > 0;
    return is_new ? Status::Ok()
                  : Status::InvalidArgument(
                        "node '" + Printable(Clip(node, 40)) +
                        (is_add ? "' is there already: leave the line out, or give another node "
                                  "another name"
                                : "' is not there: leave the line out, or add the node first"));
  }

  uint64_t count() const { return nodes_.size(); }

 private:
  std::set<std::string, std::less<>> nodes_;
};

Result<AvailabilityTrace> ParseLines(
    const TableBody& body, const std::string& name, double unit_s) {
  TraceBuilder builder;
  NamedNodes nodes;
  size_t number = body.lines_before;
  for (std::string_view line : SplitAt(body.text, '\n')) {
    ++number;
    const auto wrong = [&](std::string_view why) {
      return Status::InvalidArgument(fmt::format("{}:{}: {}", name, number, why));
    };
    line.remove_suffix(line.ends_with('\r') ? 1 : 0);
    if (line.empty()) {
      continue;
    }
    const std::vector<std::string_view> cells = SplitAt(line, ',');
    double time = 0;
    if (cells.size() < 2 || cells.size() > 3 || !ParseWhole(cells[0], &time)) {
      return wrong(
          "expected TIME,COUNT or TIME,add|remove,NODE; got '" + Printable(Clip(line, 40)) + "'");
    }
    uint64_t count = 0;
    if (cells.size() == 3) {
      const bool is_add = cells[1] == "add";
      if (!is_add && cells[1] != "remove") {
        return wrong("expected add or remove; got '" + Printable(Clip(cells[1], 40)) + "'");
      }
      if (const Status changed = nodes.Change(is_add, cells[2]); !changed.ok()) {
        return wrong(changed.message());
      }
      count = nodes.count();
    } else if (!ParseWhole(cells[1], &count)) {
      return wrong("expected a count of machines; got '" + Printable(Clip(cells[1], 40)) + "'");
    }
    if (const Status added = builder.Add(time * unit_s, count); !added.ok()) {
      return wrong(added.message());
    }
  }
  AvailabilityTrace trace = builder.Take(0);
  if (trace.steps.empty()) {
    return Status::InvalidArgument(fmt::format("{}: the trace is empty", name));
  }
  return trace;
}

constexpr double kGapFactor = 10;  // of the usual time between two readings

/// A count that somebody polled.
struct Reading {
  size_t line = 0;
  double at_s = 0;  // since 1970
  uint64_t count = 0;
};

/// Numbers of `digits` digits each with `separator` between them: "2021-12-11".
template <size_t kCount>
bool ParseParts(
    std::string_view text,
    char separator,
    const std::array<size_t, kCount>& digits,
    std::array<int, kCount>* parts) {
  const std::vector<std::string_view> texts = SplitAt(text, separator);
  for (size_t i = 0; i < kCount; ++i) {
    if (texts.size() != kCount || texts[i].size() != digits[i] || texts[i].front() == '-' ||
        !ParseWhole(texts[i], &(*parts)[i])) {
      return false;
    }
  }
  return true;
}

/// Seconds since 1970 of "2021-12-11" and "11:14:50".
std::optional<double> SecondsOf(std::string_view date, std::string_view clock) {
  std::array<int, 3> day{};
  std::array<int, 3> time{};
  if (!ParseParts(date, '-', {4, 2, 2}, &day) || !ParseParts(clock, ':', {2, 2, 2}, &time)) {
    return std::nullopt;
  }
  const std::chrono::year_month_day calendar(
      std::chrono::year(day[0]),
      std::chrono::month(static_cast<unsigned>(day[1])),
      std::chrono::day(static_cast<unsigned>(day[2])));
  if (!calendar.ok() || time[0] > 23 || time[1] > 59 || time[2] > 60) {
    return std::nullopt;
  }
  const auto days = std::chrono::sys_days(calendar).time_since_epoch().count();
  return static_cast<double>(days) * 86'400 + time[0] * 3600 + time[1] * 60 + time[2];
}

bool BeginsWithDate(std::string_view line) {
  return line.size() > 10 && line[4] == '-' && line[7] == '-';
}

Result<std::vector<Reading>> ReadDated(const TableBody& body, const std::string& name) {
  std::vector<Reading> readings;
  size_t number = body.lines_before;
  for (std::string_view line : SplitAt(body.text, '\n')) {
    ++number;
    line.remove_suffix(line.ends_with('\r') ? 1 : 0);
    if (line.empty()) {
      continue;
    }
    const std::vector<std::string_view> cells = SplitAt(line, ',');
    Reading reading{number};
    const auto at_s =
        cells.size() == 3 ? SecondsOf(Trimmed(cells[0]), Trimmed(cells[1])) : std::nullopt;
    if (!at_s || !ParseWhole(Trimmed(cells[2]), &reading.count)) {
      return Status::InvalidArgument(fmt::format(
          "{}:{}: expected YYYY-MM-DD, HH:MM:SS, COUNT; got '{}'",
          name,
          number,
          Printable(Clip(line, 40))));
    }
    reading.at_s = *at_s;
    readings.push_back(reading);
  }
  return readings;
}

/// The median; 0 if there is none.
double UsualInterval(std::vector<double> intervals) {
  if (intervals.empty()) {
    return 0;
  }
  const auto middle = intervals.begin() + static_cast<std::ptrdiff_t>(intervals.size() / 2);
  std::nth_element(intervals.begin(), middle, intervals.end());
  return *middle;
}

Result<AvailabilityTrace> ParseDatedLines(
    const TableBody& body, const std::string& name, GapRule gaps) {
  PS_ASSIGN(const std::vector<Reading> readings, ReadDated(body, name));
  std::vector<double> intervals;
  for (size_t i = 1; i < readings.size(); ++i) {
    intervals.push_back(readings[i].at_s - readings[i - 1].at_s);
  }
  const double usual_s = UsualInterval(std::move(intervals));
  double zero_s = readings.front().at_s;  // of the trace; later by what is left out
  TraceBuilder builder;
  for (size_t i = 0; i < readings.size(); ++i) {
    const Reading& reading = readings[i];
    const double before_s = readings[i > 0 ? i - 1 : 0].at_s;
    const double gap_s = reading.at_s - before_s;
    Status added = Status::Ok();
    if (usual_s > 0 && gap_s > kGapFactor * usual_s) {
      switch (gaps) {
        case GapRule::kRefuse:
          return Status::InvalidArgument(fmt::format(
              "{}:{}: nothing is known of the {:.2f} hours before this line, from hour {:.2f} on, "
              "where a count comes every {:.0f} s else; say by --gaps what to make of such times: "
              "hold (the count before stays), none (no machine is there), cut (they are left out)",
              name,
              reading.line,
              gap_s / 3600,
              (before_s - zero_s) / 3600,
              usual_s));
        case GapRule::kHold:
          break;
        case GapRule::kNone:
          added = builder.Add(before_s + usual_s - zero_s, 0);
          break;
        case GapRule::kCut:
          zero_s += gap_s - usual_s;
          break;
      }
    }
    added = added.ok() ? builder.Add(reading.at_s - zero_s, reading.count) : added;
    if (!added.ok()) {
      return Status::InvalidArgument(fmt::format("{}:{}: {}", name, reading.line, added.message()));
    }
  }
  return builder.Take(0);
}

Status AddMissing(double at_s, GapRule gaps, TraceBuilder* builder) {
  if (gaps == GapRule::kRefuse) {
    return Status::InvalidArgument(fmt::format(
        "the count from hour {:.2f} on is missing; say by --gaps what to make of such times: hold "
        "(the count before stays), none (no machine is there), cut (they are left out)",
        at_s / 3600));
  }
  return gaps == GapRule::kNone ? builder->Add(at_s, 0) : Status::Ok();
}

Result<AvailabilityTrace> ParseTraceJson(
    std::string_view text, const std::string& name, GapRule gaps) {
  PS_ASSIGN(const JsonValue root, ParseJson(text, name));
  const JsonValue* const gap = root.At("metadata.gap_seconds");
  const JsonValue* const data = root.At("data");
  double gap_s = 0;
  if (gap == nullptr || gap->kind != JsonValue::Kind::kNumber || !ParseWhole(gap->text, &gap_s) ||
      !(gap_s > 0)) {
    return ErrorAtPath(
        name, root, "metadata.gap_seconds", "expected metadata.gap_seconds, a number above 0");
  }
  if (data == nullptr || data->kind != JsonValue::Kind::kList || data->children.empty()) {
    return ErrorAtPath(name, root, "data", "expected data, a list of counts");
  }
  TraceBuilder builder;
  double at_s = 0;
  for (const JsonValue& value : data->children) {
    uint64_t count = 0;
    Status added = Status::Ok();
    if (value.kind == JsonValue::Kind::kNull) {
      added = AddMissing(at_s, gaps, &builder);
      if (added.ok() && gaps == GapRule::kCut) {
        continue;
      }
    } else if (value.kind != JsonValue::Kind::kNumber || !ParseWhole(value.text, &count)) {
      added = Status::InvalidArgument(fmt::format(
          "expected a count of machines; got {}",
          value.kind == JsonValue::Kind::kNumber ? value.text : KindName(value.kind)));
    } else {
      added = builder.Add(at_s, count);
    }
    if (!added.ok()) {
      return ErrorAt(name, value.place, std::string(added.message()));
    }
    at_s += gap_s;
  }
  AvailabilityTrace trace = builder.Take(at_s);
  if (trace.steps.empty()) {
    return ErrorAt(name, data->place, "no count in it is known");
  }
  return trace;
}

/// Not negative; in the units of the trace.
std::optional<double> TimeIn(const JsonValue* value) {
  double time = 0;
  const bool is_number =
      value != nullptr && value->kind == JsonValue::Kind::kNumber && ParseWhole(value->text, &time);
  return is_number && time >= 0 ? std::optional(time) : std::nullopt;
}

/// What an event of Parcae's says of the machines: "no-op" and "migration" are about its pipelines.
Status ChangeNodes(const JsonValue& event, const std::string& name, NamedNodes* nodes) {
  const JsonValue& kind = event.children[1];
  const bool is_add = kind.text == "add";
  const bool is_change = is_add || kind.text == "remove";
  if (!is_change && kind.text != "no-op" && kind.text != "migration") {
    return ErrorAt(
        name, kind.place, "expected add, remove, no-op or migration; got " + Quoted(kind.text));
  }
  const JsonValue* const list = event.children[2].Find("nodes");
  if (list == nullptr || list->kind != JsonValue::Kind::kList) {
    return ErrorAt(name, event.children[2].place, "expected nodes, a list of names");
  }
  if (!is_change && !list->children.empty()) {
    return ErrorAt(name, list->place, "only add and remove have nodes");
  }
  for (const JsonValue& node : list->children) {
    const Status changed = node.kind == JsonValue::Kind::kText
                               ? nodes->Change(is_add, node.text)
                               : Status::InvalidArgument("expected the name of a node");
    if (!changed.ok()) {
      return ErrorAt(name, node.place, std::string(changed.message()));
    }
  }
  return Status::Ok();
}

/// Parcae's cuts of its trace: `[0, "add", {"nodes": ["a", "b"], "duration": 60000}]` a line.
Result<AvailabilityTrace> ParseEventLists(
    std::string_view text, const std::string& name, double unit_s) {
  using Kind = JsonValue::Kind;
  TraceBuilder builder;
  NamedNodes nodes;
  double end_s = 0;
  int number = 0;
  for (const std::string_view line : SplitAt(text, '\n')) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) {
      continue;
    }
    PS_ASSIGN(const JsonValue event, ParseJson(line, name, {number, 1}));
    const std::optional<double> time = event.kind == Kind::kList && event.children.size() == 3 &&
                                               event.children[1].kind == Kind::kText &&
                                               event.children[2].kind == Kind::kObject
                                           ? TimeIn(&event.children[0])
                                           : std::nullopt;
    if (!time) {
      return ErrorAt(
          name, event.place, R"(expected [TIME, "add", {"nodes": [...], "duration": TIME}])");
    }
    PS_TRY(ChangeNodes(event, name, &nodes));
    const std::optional<double> duration = TimeIn(event.children[2].Find("duration"));
    if (!duration) {
      return ErrorAt(name, event.children[2].place, "expected duration, a time");
    }
    if (const Status added = builder.Add(*time * unit_s, nodes.count()); !added.ok()) {
      return ErrorAt(name, event.place, std::string(added.message()));
    }
    end_s = (*time + *duration) * unit_s;
    if (!(end_s <= kTraceSecondsMax)) {
      return ErrorAt(name, event.place, "the end is not within 1e9 s");
    }
  }
  return builder.Take(end_s);
}

constexpr size_t kRegularPricesMin = 5;

/// A line whenever the price changes has no gaps. But where nearly all lines come at one interval,
/// somebody read the price then, and a line that is not there is a price that is missing.
Status CheckNoPriceIsMissing(
    const std::vector<PriceLine>& prices,
    const std::vector<size_t>& numbers,
    const std::string& name) {
  std::vector<double> intervals;
  for (size_t i = 1; i < prices.size(); ++i) {
    intervals.push_back(prices[i].at_s - prices[i - 1].at_s);
  }
  const double usual_s = UsualInterval(intervals);
  const auto as_usual = std::ranges::count_if(
      intervals, [&](double interval_s) { return std::abs(interval_s / usual_s - 1) < 0.01; });
  if (prices.size() < kRegularPricesMin ||
      4 * static_cast<size_t>(as_usual) < 3 * intervals.size()) {
    return Status::Ok();
  }
  for (size_t i = 0; i < intervals.size(); ++i) {
    if (intervals[i] > 1.5 * usual_s) {
      return Status::InvalidArgument(fmt::format(
          "{}:{}: prices are missing from hour {:.2f} to hour {:.2f}, where one comes every {:.0f} "
          "s else: fill them in, or say --gaps hold if the price before stayed",
          name,
          numbers[i + 1],
          (prices[i].at_s + usual_s) / 3600,
          prices[i + 1].at_s / 3600,
          usual_s));
    }
  }
  return Status::Ok();
}

}  // namespace

Result<GapRule> GapRuleOf(const std::string& name) {
  constexpr std::array<std::pair<std::string_view, GapRule>, 4> kRules = {
      {{"", GapRule::kRefuse},
       {"hold", GapRule::kHold},
       {"none", GapRule::kNone},
       {"cut", GapRule::kCut}}};
  const auto* const rule =
      std::ranges::find(kRules, name, &std::pair<std::string_view, GapRule>::first);
  if (rule == kRules.end()) {
    return Status::InvalidArgument(
        fmt::format("--gaps wants hold, none or cut; got '{}'", Printable(name)));
  }
  return rule->second;
}

Result<AvailabilityTrace> ParseTrace(
    std::string_view all, const std::string& name, double unit_s, GapRule gaps) {
  const TableBody body = BodyOf(all);
  const std::string_view text = body.text;
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && text[first] == '{') {
    return ParseTraceJson(text, name, gaps);
  }
  if (first != std::string_view::npos && text[first] == '[') {
    return ParseEventLists(text, name, unit_s);
  }
  if (first != std::string_view::npos && BeginsWithDate(text.substr(first))) {
    return ParseDatedLines(body, name, gaps);
  }
  return ParseLines(body, name, unit_s);
}

Result<std::vector<PriceLine>> ParsePrices(
    std::string_view text, const std::string& name, double unit_s, GapRule gaps) {
  std::vector<PriceLine> prices;
  std::vector<size_t> numbers;  // of their lines
  const TableBody body = BodyOf(text);
  size_t number = body.lines_before;
  for (std::string_view line : SplitAt(body.text, '\n')) {
    ++number;
    const auto wrong = [&](std::string_view why) {
      return Status::InvalidArgument(fmt::format("{}:{}: {}", name, number, why));
    };
    line.remove_suffix(line.ends_with('\r') ? 1 : 0);
    if (line.empty()) {
      continue;
    }
    const std::vector<std::string_view> cells = SplitAt(line, ',');
    PriceLine price;
    if (cells.size() != 2 || !ParseWhole(cells[0], &price.at_s)) {
      return wrong("expected TIME,USD; got '" + Printable(Clip(line, 40)) + "'");
    }
    price.at_s *= unit_s;
    if (!(price.at_s >= 0 && price.at_s <= kTraceSecondsMax)) {
      return wrong("the time is not within 0 and 1e9 s");
    }
    if (cells[1].empty() || cells[1] == "null") {
      return wrong(fmt::format(
          "the price from hour {:.2f} on is missing: fill it in; the one before, if that stayed",
          price.at_s / 3600));
    }
    if (!ParseWhole(cells[1], &price.usd) || !(price.usd >= 0 && price.usd < kPriceMax)) {
      return wrong("expected a price in USD; got '" + Printable(Clip(cells[1], 40)) + "'");
    }
    if (!prices.empty() && price.at_s <= prices.back().at_s) {
      return wrong(
          price.at_s < prices.back().at_s ? "the time is before that of the line above"
                                          : "there is a price of this time already");
    }
    if (prices.size() >= kTraceStepsMax) {
      return wrong(fmt::format("more than {} prices", kTraceStepsMax));
    }
    prices.push_back(price);
    numbers.push_back(number);
  }
  if (prices.empty()) {
    return Status::InvalidArgument(fmt::format("{}: there is no price in it", name));
  }
  if (gaps != GapRule::kHold) {
    PS_TRY(CheckNoPriceIsMissing(prices, numbers, name));
  }
  return prices;
}

Result<std::vector<PriceLine>> CutPrices(
    const std::vector<PriceLine>& prices, const std::string& name, double from_s) {
  if (prices.empty() || prices.front().at_s > from_s) {
    return Status::InvalidArgument(fmt::format(
        "{}: prices are missing from hour {:.2f} of the trace, where the simulation begins, until "
        "hour {:.2f}: add a line for its beginning, or begin later (--from-hour)",
        name,
        from_s / 3600,
        prices.empty() ? 0 : prices.front().at_s / 3600));
  }
  std::vector<PriceLine> cut;
  for (const PriceLine& price : prices) {
    if (price.at_s <= from_s) {
      cut.clear();
    }
    cut.push_back({std::max(0.0, price.at_s - from_s), price.usd});
  }
  return cut;
}

std::string NodesWanted() {
  return fmt::format("--nodes wants a number from 1 to {}, as in --nodes 20", kTraceNodesMax);
}

Result<AvailabilityTrace> CutTrace(const AvailabilityTrace& trace, const ReplayScale& scale) {
  const double from_s = scale.from_hours * 3600;
  if (!(scale.speedup >= 1 && scale.speedup <= 1e6)) {
    return Status::InvalidArgument("--speedup wants a number from 1 to 1000000, as in 60");
  }
  if (!(from_s >= 0 && std::isfinite(from_s))) {
    return Status::InvalidArgument("--from-hour wants an hour of the trace, as in 2.5");
  }
  if (!(scale.hours > 0)) {
    return Status::InvalidArgument("--hours wants hours of the trace, above 0, as in 2.5");
  }
  if (scale.nodes_max > kTraceNodesMax) {
    return Status::InvalidArgument(NodesWanted());
  }
  const double end_s = std::min(trace.end_s, from_s + scale.hours * 3600);
  if (!(from_s < end_s)) {
    return Status::InvalidArgument(fmt::format(
        "the trace is {:.2f} h long, and there is nothing of it after {:.2f} h",
        trace.end_s / 3600,
        from_s / 3600));
  }
  uint32_t most = 0;
  for (const TraceStep& step : trace.steps) {
    most = std::max(most, step.nodes);
  }
  const double factor = scale.nodes_max == 0 || most == 0
                            ? 1
                            : static_cast<double>(scale.nodes_max) / static_cast<double>(most);
  AvailabilityTrace cut;
  cut.end_s = (end_s - from_s) / scale.speedup;
  for (const TraceStep& step : trace.steps) {
    if (step.at_s >= end_s) {
      break;
    }
    const double at_s = std::max(0.0, step.at_s - from_s) / scale.speedup;
    const auto nodes = static_cast<uint32_t>(std::lround(step.nodes * factor));
    if (!cut.steps.empty() && cut.steps.back().at_s == at_s) {
      cut.steps.pop_back();
    }
    if (cut.steps.empty() || cut.steps.back().nodes != nodes) {
      cut.steps.push_back({at_s, nodes});
    }
  }
  return cut;
}

double NodeSeconds(const AvailabilityTrace& trace) {
  double sum = 0;
  for (size_t i = 0; i < trace.steps.size(); ++i) {
    const double end_s = i + 1 < trace.steps.size() ? trace.steps[i + 1].at_s : trace.end_s;
    sum += trace.steps[i].nodes * (end_s - trace.steps[i].at_s);
  }
  return sum;
}

}  // namespace ps::psctl
