#include "run/report/tables.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "ps/base/check.h"
#include "ps/base/text.h"
#include "ps/base/utf8.h"
#include "run/report/summary.h"

namespace ps::run {
namespace {

constexpr size_t kColumnGap = 2;

void TrimRight(std::string* line) {
  line->erase(line->find_last_not_of(' ') + 1);
}

}  // namespace

void Table::AddRow(std::vector<std::string> cells) {
  PS_CHECK(cells.size() == columns_.size()) << cells.size() << " cells, " << columns_.size();
  for (std::string& cell : cells) {
    cell = Clip(cell, cell_width_max_);
  }
  rows_.push_back(std::move(cells));
}

std::string Table::Render(size_t width_max) const {
  std::vector<size_t> widths;
  std::vector<size_t> shown;
  size_t total = 0;
  for (size_t c = 0; c < columns_.size(); ++c) {
    const Column& column = columns_[c];
    size_t width = TextWidth(column.title);
    bool is_usual = !column.usual.empty() && !rows_.empty();
    for (const auto& row : rows_) {
      width = std::max(width, TextWidth(row[c]));
      is_usual = is_usual && row[c] == column.usual;
    }
    widths.push_back(width);
    if (!is_usual) {
      shown.push_back(c);
      total += width + (c > 0 ? kColumnGap : 0);
    }
  }
  while (width_max > 0 && total > width_max) {
    const auto last = std::max_element(shown.begin(), shown.end(), [&](size_t a, size_t b) {
      return columns_[a].drop_order < columns_[b].drop_order;
    });
    if (last == shown.end() || columns_[*last].drop_order == 0) {
      break;
    }
    total -= widths[*last] + kColumnGap;
    shown.erase(last);
  }
  std::string out;
  const auto add_line = [&](const auto& cell_of) {
    std::string line;
    for (const size_t c : shown) {
      const std::string& cell = cell_of(c);
      const std::string padding(widths[c] - TextWidth(cell), ' ');
      line += line.empty() ? "" : std::string(kColumnGap, ' ');
      line += columns_[c].align == Align::kLeft ? cell + padding : padding + cell;
    }
    TrimRight(&line);
    out += line + "\n";
  };
  add_line([&](size_t c) -> const std::string& { return columns_[c].title; });
  for (const auto& row : rows_) {
    add_line([&](size_t c) -> const std::string& { return row[c]; });
  }
  return out;
}

std::string RenderPairs(const std::vector<std::pair<std::string, std::string>>& pairs) {
  size_t width = 0;
  for (const auto& [name, value] : pairs) {
    width = std::max(width, TextWidth(name));
  }
  std::string out;
  for (const auto& [name, value] : pairs) {
    std::string line = name + std::string(width - TextWidth(name) + kColumnGap, ' ') + value;
    TrimRight(&line);
    out += line + "\n";
  }
  return out;
}

std::string FormatLoss(double loss) {
  return std::abs(loss) < 10'000 ? FormatFixed(loss, 4) : fmt::format("{:.3g}", loss);
}

std::string FormatFigures(std::span<const proto::Figure> figures) {
  std::string text;
  for (const proto::Figure& figure : figures) {
    text +=
        fmt::format("{}{} {:.4g}", text.empty() ? "" : ", ", Printable(figure.name), figure.value);
  }
  return text;
}

std::string FormatFigures(const proto::JobStatus& status) {
  constexpr std::string_view kTest = "test_";
  std::vector<proto::Figure> figures = status.figures;
  if (!status.evaluations.empty() && EvaluatedOn(status) != "test") {
    for (proto::Figure& figure : figures) {
      if (figure.name.starts_with(kTest)) {
        figure.name = fmt::format("{}_{}", EvaluatedOn(status), figure.name.substr(kTest.size()));
      }
    }
  }
  return FormatFigures(figures);
}

}  // namespace ps::run
