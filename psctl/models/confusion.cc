#include "psctl/models/confusion.h"

#include <fmt/core.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "ps/base/check.h"
#include "ps/base/text.h"
#include "psctl/view/line_plot.h"
#include "run/report/tables.h"

namespace ps::psctl {
namespace {

constexpr size_t kCountsMax = 16;  // classes whose counts are a table that is read
constexpr size_t kWorstMax = 20;   // of more classes
constexpr size_t kMistakesMax = 10;
constexpr size_t kNameWidth = 12;   // of a class, above a column
constexpr size_t kNumbersMax = 24;  // classes whose squares have numbers
constexpr size_t kLabelsMax = 60;   // and names beside them

constexpr const char* kSquaresStyle = R"(<style>
  .right { fill: #116329 } .wrong { fill: #bc4c00 }
  @media (prefers-color-scheme: dark) { .right { fill: #7ee787 } .wrong { fill: #ffa657 } }
</style>
)";

std::string Share(uint64_t part, uint64_t whole) {
  return whole == 0
             ? "-"
             : fmt::format("{:.1f}", 100 * static_cast<double>(part) / static_cast<double>(whole));
}

std::vector<std::string> PrintableNames(std::vector<std::string> names) {
  for (std::string& name : names) {
    name = Printable(name);
  }
  return names;
}

}  // namespace

ConfusionMatrix::ConfusionMatrix(std::vector<std::string> names)
    : names_(PrintableNames(std::move(names))), counts_(names_.size() * names_.size()) {
  PS_CHECK(!names_.empty() && names_.size() <= kClassesMax);
}

void ConfusionMatrix::Add(size_t label, size_t guess) {
  PS_CHECK(label < names_.size() && guess < names_.size()) << label << " taken for " << guess;
  ++counts_[label * names_.size() + guess];
}

std::vector<ConfusionMatrix::ClassRow> ConfusionMatrix::Rows() const {
  std::vector<ClassRow> rows;
  for (size_t i = 0; i < names_.size(); ++i) {
    ClassRow row{i, 0, At(i, i), 0};
    for (size_t k = 0; k < names_.size(); ++k) {
      row.samples += At(i, k);
      row.taken += At(k, i);
    }
    rows.push_back(row);
  }
  return rows;
}

std::string ConfusionMatrix::RenderCounts() const {
  std::vector<run::Column> columns = {{"is, taken for:", run::Align::kLeft}};
  for (const std::string& name : names_) {
    columns.push_back({Clip(name, kNameWidth)});
  }
  run::Table table(std::move(columns));
  for (size_t i = 0; i < names_.size(); ++i) {
    std::vector<std::string> cells = {names_[i]};
    for (size_t k = 0; k < names_.size(); ++k) {
      cells.push_back(At(i, k) == 0 ? "." : FormatCount(At(i, k)));
    }
    table.AddRow(std::move(cells));
  }
  return table.Render();
}

std::string ConfusionMatrix::RenderClasses() const {
  std::vector<ClassRow> rows = Rows();
  std::erase_if(rows, [](const ClassRow& row) { return row.samples + row.taken == 0; });
  const size_t all = rows.size();
  if (all > kWorstMax) {
    const auto missed = [](const ClassRow& row) {
      return row.samples == 0
                 ? 0.0
                 : 1 - static_cast<double>(row.found) / static_cast<double>(row.samples);
    };
    std::ranges::sort(rows, [missed](const ClassRow& a, const ClassRow& b) {
      return missed(a) != missed(b) ? missed(a) > missed(b) : a.number < b.number;
    });
    rows.resize(kWorstMax);
  }
  run::Table table(
      {{"class", run::Align::kLeft}, {"samples"}, {"found %"}, {"taken for it"}, {"rightly %"}});
  for (const ClassRow& row : rows) {
    table.AddRow(
        {names_[row.number],
         FormatCount(row.samples),
         Share(row.found, row.samples),
         FormatCount(row.taken),
         Share(row.found, row.taken)});
  }
  const std::string note =
      rows.size() < all ? fmt::format("the worst {} of {} classes\n", rows.size(), all) : "";
  return note + table.Render();
}

std::string ConfusionMatrix::RenderMistakes() const {
  std::vector<std::tuple<uint64_t, size_t, size_t>> mistakes;  // samples, label, guess
  for (size_t i = 0; i < names_.size(); ++i) {
    for (size_t k = 0; k < names_.size(); ++k) {
      if (i != k && At(i, k) > 0) {
        mistakes.emplace_back(At(i, k), i, k);
      }
    }
  }
  if (mistakes.empty()) {
    return "";
  }
  std::ranges::sort(mistakes, [](const auto& a, const auto& b) {
    return std::get<0>(a) != std::get<0>(b) ? std::get<0>(a) > std::get<0>(b) : a < b;
  });
  mistakes.resize(std::min(mistakes.size(), kMistakesMax));
  run::Table table({{"is", run::Align::kLeft}, {"taken for", run::Align::kLeft}, {"samples"}});
  for (const auto& [samples, label, guess] : mistakes) {
    table.AddRow({names_[label], names_[guess], FormatCount(samples)});
  }
  return "\n" + table.Render();
}

std::string ConfusionMatrix::Render() const {
  const std::string counts = names_.size() <= kCountsMax ? RenderCounts() + "\n" : "";
  return counts + RenderClasses() + RenderMistakes();
}

void ConfusionMatrix::AddTo(JsonWriter* json) const {
  json->BeginList("classes");
  for (const std::string& name : names_) {
    json->Value(std::string_view(name));
  }
  json->EndList();
  json->BeginList("confusion");
  for (size_t i = 0; i < names_.size(); ++i) {
    json->BeginList();
    for (size_t k = 0; k < names_.size(); ++k) {
      json->Value(At(i, k));
    }
    json->EndList();
  }
  json->EndList();
}

std::string ConfusionMatrix::Draw(const std::string& title) const {
  constexpr double kLeft = 170;
  constexpr double kTop = 150;
  constexpr double kSide = 640;  // of all squares
  constexpr double kMargin = 30;
  const size_t n = names_.size();
  const double cell = std::clamp(kSide / static_cast<double>(n), 2.0, 56.0);
  const double side = cell * static_cast<double>(n);
  const double width = std::max(kLeft + side + kMargin, 460.0);
  const double height = kTop + side + kMargin;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
      "height=\"{1:.0f}\" role=\"img\">\n{2}"
      "<rect class=\"page\" width=\"100%\" height=\"100%\"/>\n"
      "<text class=\"ink title\" x=\"20\" y=\"32\">{3}</text>\n"
      "<text class=\"soft\" x=\"20\" y=\"52\">rows: what a sample is; columns: what it is taken "
      "for; darker: more of the row</text>\n",
      width,
      height,
      std::string(PlotStyle()) + kSquaresStyle,
      XmlText(Clip(Printable(title), kTitleWidth)));
  const std::vector<ClassRow> rows = Rows();
  const auto at = [cell](size_t i) { return cell * static_cast<double>(i); };
  for (size_t i = 0; i < n; ++i) {
    if (n <= kLabelsMax) {
      const std::string name = XmlText(Clip(names_[i], 24));
      svg += fmt::format(
          "<text class=\"ink\" x=\"{0:.1f}\" y=\"{1:.1f}\" text-anchor=\"end\" "
          "dominant-baseline=\"central\">{2}</text>\n"
          "<text class=\"ink\" transform=\"translate({3:.1f} {4:.1f}) rotate(-60)\">{2}</text>\n",
          kLeft - 8,
          kTop + at(i) + cell / 2,
          name,
          kLeft + at(i) + cell / 2,
          kTop - 8);
    }
    for (size_t k = 0; k < n; ++k) {
      if (At(i, k) == 0) {
        continue;
      }
      const double share = static_cast<double>(At(i, k)) / static_cast<double>(rows[i].samples);
      svg += fmt::format(
          "<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" "
          "opacity=\"{:.3f}\"/>\n",
          i == k ? "right" : "wrong",
          kLeft + at(k),
          kTop + at(i),
          cell,
          cell,
          0.08 + 0.72 * share);
      if (n <= kNumbersMax) {
        svg += fmt::format(
            "<text class=\"ink\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\" "
            "dominant-baseline=\"central\">{}</text>\n",
            kLeft + at(k) + cell / 2,
            kTop + at(i) + cell / 2,
            At(i, k));
      }
    }
  }
  svg += fmt::format(
      "<rect class=\"axis\" fill=\"none\" x=\"{}\" y=\"{}\" width=\"{:.1f}\" height=\"{:.1f}\"/>\n"
      "</svg>\n",
      kLeft,
      kTop,
      side,
      side);
  return svg;
}

}  // namespace ps::psctl
