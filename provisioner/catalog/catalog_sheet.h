#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "provisioner/catalog/catalog_import.h"
#include "provisioner/catalog/csv_table.h"
#include "ps/base/status.h"

namespace ps::provisioner {

/// What a column of a public table says.
enum class Field : unsigned char {
  kType,
  kDevice,
  kDevices,
  kDeviceMemory,
  kVcpus,
  kMemory,
  kNetworkGbit,
  kNetworkMbit,
  kBurstGbit,
  kNetworkPerformance,
  kPcie,
  kOnDemand,
  kSpot,
  kSavingPercent,
  kRegion,
  kZone,
  kProvider,
  kQuota,
};

/// A CSV file whose columns are known by their names.
class Sheet {
 public:
  /// `file` has to outlive the sheet. Errors: kInvalidArgument, it is no table of instance types or
  /// accelerators.
  static Result<Sheet> Parse(const ImportFile& file);

  bool Has(Field field) const { return ColumnOf(field).has_value(); }

  const std::vector<CsvTable::Row>& rows() const { return table_.rows; }

  const ImportFile& file() const { return *file_; }

  /// Empty when there is no such column.
  std::string Text(const CsvTable::Row& row, Field field) const;

  /// Nothing for an empty cell. Errors: it is no number from 0 to 1e9.
  Result<std::optional<double>> Number(const CsvTable::Row& row, Field field) const;

  /// As Number, but 0 is an error too.
  Result<std::optional<double>> Positive(const CsvTable::Row& row, Field field) const;

  /// Gbit/s of what EC2 calls NetworkPerformance: "Up to 10 Gigabit", "4x 100 Gigabit", wherever in
  /// the cell. Nothing for "High" and the like.
  std::optional<double> GigabitWords(const CsvTable::Row& row, Field field) const;

  /// "FILE:LINE: column is "text"; allowed". Requires: Has(field).
  Status Error(const CsvTable::Row& row, Field field, const std::string& allowed) const;

 private:
  std::optional<size_t> ColumnOf(Field field) const;

  const ImportFile* file_ = nullptr;
  std::vector<std::string> titles_;
  std::vector<std::optional<Field>> fields_;
  CsvTable table_;
};

}  // namespace ps::provisioner
