#include "provisioner/catalog/catalog_sheet.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace ps::provisioner {
namespace {

struct FieldName {
  std::string_view name;  // lower case, without '_'
  Field field;
};

// Names of columns in public tables.
constexpr auto kFieldNames = std::to_array<FieldName>({
    {"instancetype", Field::kType},
    {"machinetype", Field::kType},
    {"gpumodel", Field::kDevice},
    {"acceleratorname", Field::kDevice},
    {"gpuname", Field::kDevice},
    {"device", Field::kDevice},
    {"gpucount", Field::kDevices},
    {"acceleratorcount", Field::kDevices},
    {"devices", Field::kDevices},
    {"gpumemorygib", Field::kDeviceMemory},
    {"devicememorygib", Field::kDeviceMemory},
    {"vcpus", Field::kVcpus},
    {"memorygib", Field::kMemory},
    {"netbaselinegbps", Field::kNetworkGbit},
    {"networkgbitpers", Field::kNetworkGbit},
    {"baselinembps", Field::kNetworkMbit},
    {"netburstgbps", Field::kBurstGbit},
    {"networkburstgbitpers", Field::kBurstGbit},
    {"networkperformance", Field::kNetworkPerformance},
    {"networkinfo", Field::kNetworkPerformance},
    {"pciegbperseachway", Field::kPcie},
    {"pciegbytepers", Field::kPcie},
    {"ondemandusdperhour", Field::kOnDemand},
    {"priceperhour", Field::kOnDemand},
    {"price", Field::kOnDemand},
    {"spotusdperhour", Field::kSpot},
    {"spotprice", Field::kSpot},
    {"spotsavingpct", Field::kSavingPercent},
    {"spotsavingpct2025", Field::kSavingPercent},
    {"savingsoverondemandpct", Field::kSavingPercent},
    {"region", Field::kRegion},
    {"availabilityzone", Field::kZone},
    {"zone", Field::kZone},
    {"provider", Field::kProvider},
    {"quota", Field::kQuota},
    {"maxquota", Field::kQuota},
});

std::optional<Field> FieldOf(std::string_view title) {
  std::string plain;
  for (const char c : title) {
    if (c != '_') {
      plain += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    }
  }
  const auto* found = std::ranges::find(kFieldNames, plain, &FieldName::name);
  return found == kFieldNames.end() ? std::nullopt : std::optional(found->field);
}

}  // namespace

Result<Sheet> Sheet::Parse(const ImportFile& file) {
  PS_ASSIGN(CsvTable table, ParseCsv(file.text, ',', file.name));
  if (table.rows.empty()) {
    return Status::InvalidArgument(
        fmt::format("{}:1: the file is empty; allowed: a header line", file.name));
  }
  Sheet sheet;
  sheet.file_ = &file;
  sheet.titles_ = std::move(table.rows.front().cells);
  table.rows.erase(table.rows.begin());
  sheet.table_ = std::move(table);
  for (const std::string& title : sheet.titles_) {
    sheet.fields_.push_back(FieldOf(title));
  }
  for (const CsvTable::Row& row : sheet.table_.rows) {
    if (row.cells.size() != sheet.titles_.size()) {
      return Status::InvalidArgument(fmt::format(
          "{}:{}: {} cells; allowed: {}, as in the header",
          file.name,
          row.line,
          row.cells.size(),
          sheet.titles_.size()));
    }
  }
  if (!sheet.Has(Field::kType) && !(sheet.Has(Field::kDevice) && sheet.Has(Field::kMemory))) {
    return Status::InvalidArgument(fmt::format(
        "{}:1: no column instance_type; allowed: a table of instance types, or one of accelerators "
        "with gpu_model and memory_gib",
        file.name));
  }
  return sheet;
}

std::string Sheet::Text(const CsvTable::Row& row, Field field) const {
  const auto column = ColumnOf(field);
  return column ? row.cells[*column] : "";
}

Result<std::optional<double>> Sheet::Number(const CsvTable::Row& row, Field field) const {
  const std::string text = Text(row, field);
  if (text.empty()) {
    return std::optional<double>();
  }
  constexpr double kMax = 1e9;
  double value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size() ||
      !(value >= 0 && value <= kMax)) {
    return Error(row, field, "allowed: a number from 0 to 1000000000");
  }
  return std::optional(value);
}

Result<std::optional<double>> Sheet::Positive(const CsvTable::Row& row, Field field) const {
  PS_ASSIGN(const std::optional<double> value, Number(row, field));
  if (value && *value == 0) {
    return Error(row, field, "allowed: a number above 0, or nothing when it is unknown");
  }
  return value;
}

std::optional<double> Sheet::GigabitWords(const CsvTable::Row& row, Field field) const {
  const std::string text = Text(row, field);
  const size_t end = text.find(" Gigabit", 1);
  if (end == std::string::npos) {
    return std::nullopt;
  }
  const size_t begin = text.find_last_not_of("0123456789.", end - 1) + 1;
  double each = 0;
  std::from_chars(text.data() + begin, text.data() + end, each);
  double count = 1;
  if (begin >= 3 && text.substr(begin - 2, 2) == "x ") {
    const size_t digits = text.find_last_not_of("0123456789", begin - 3) + 1;
    std::from_chars(text.data() + digits, text.data() + begin - 2, count);
  }
  return each * count > 0 ? std::optional(each * count) : std::nullopt;
}

Status Sheet::Error(const CsvTable::Row& row, Field field, const std::string& allowed) const {
  return Status::InvalidArgument(fmt::format(
      "{}:{}: {} is \"{}\"; {}",
      file_->name,
      row.line,
      titles_[*ColumnOf(field)],
      Text(row, field),
      allowed));
}

std::optional<size_t> Sheet::ColumnOf(Field field) const {
  const auto found = std::ranges::find(fields_, std::optional(field));
  return found == fields_.end() ? std::nullopt
                                : std::optional(static_cast<size_t>(found - fields_.begin()));
}

}  // namespace ps::provisioner
