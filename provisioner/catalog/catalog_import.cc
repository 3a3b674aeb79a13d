#include "provisioner/catalog/catalog_import.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <set>

#include "provisioner/catalog/catalog_draft.h"
#include "provisioner/catalog/catalog_sheet.h"
#include "provisioner/catalog/csv_table.h"
#include "ps/base/text.h"

namespace ps::provisioner {
namespace {

/// Whose vCPUs EC2 limits together, by a type's name: "G" of "g4dn.xlarge", "Standard" of
/// "m5.large". Empty for a name that is none of EC2's.
std::string AwsQuotaFamily(const std::string& type) {
  constexpr std::pair<std::string_view, std::string_view> kFamilies[] = {
      {"dl", "DL"},
      {"f", "F"},
      {"g", "G"},
      {"hpc", "HPC"},
      {"inf", "Inf"},
      {"p", "P"},
      {"trn", "Trn"},
      {"vt", "G"},
      {"x", "X"}};
  constexpr std::string_view kStandard = "acdhimrtz";
  const size_t end = type.find_first_of("0123456789");
  if (end == 0 || end == std::string::npos || type.find('.') == std::string::npos) {
    return "";
  }
  const std::string_view letters = std::string_view(type).substr(0, end);
  for (const auto& [prefix, family] : kFamilies) {
    if (letters == prefix) {
      return std::string(family);
    }
  }
  return kStandard.find(letters.front()) == std::string_view::npos ? "" : "Standard";
}

class Importer {
 public:
  Importer(const proto::Catalog& base, const ImportOptions& options)
      : options_(options), draft_(base) {
    catalog_ = base;
    catalog_.types.clear();
    if (!options.provider.empty()) {
      catalog_.provider = options.provider;
    }
    if (!options.region.empty()) {
      catalog_.region = options.region;
    }
  }

  /// Files can't move a catalog elsewhere.
  static Status CheckBase(const proto::Catalog& base, const ImportOptions& options) {
    const auto check =
        [](const std::string& name, const std::string& has, const std::string& asked) {
          return has.empty() || asked.empty() || has == asked
                     ? Status::Ok()
                     : Status::InvalidArgument(fmt::format(
                           "the catalog to start from is of {} {}, not {}", name, has, asked));
        };
    PS_TRY(check("provider", base.provider, options.provider));
    return check("region", base.region, options.region);
  }

  Status Csv(std::span<const ImportFile> files) {
    std::vector<Sheet> sheets;
    for (const ImportFile& file : files) {
      PS_ASSIGN(Sheet sheet, Sheet::Parse(file));
      sheets.push_back(std::move(sheet));
    }
    PS_TRY(Settle(sheets, Field::kProvider, catalog_.provider, "provider"));
    PS_TRY(Settle(sheets, Field::kRegion, catalog_.region, "region"));
    for (const Sheet& sheet : sheets) {
      PS_TRY(sheet.Has(Field::kType) ? Types(sheet) : Devices(sheet));
      AddSource(sheet.file());
    }
    return Status::Ok();
  }

  Status SpotTsv(std::span<const ImportFile> files) {
    if (catalog_.region.empty()) {
      return Status::InvalidArgument("spot-tsv names zones only; give the region: --region");
    }
    for (const ImportFile& file : files) {
      PS_ASSIGN(const CsvTable table, ParseCsv(file.text, '\t', file.name));
      std::map<std::string, std::string> times;  // of the price taken, by zone and type
      for (const CsvTable::Row& row : table.rows) {
        PS_TRY(SpotLine(file, row, times));
      }
      AddSource(file);
    }
    return Status::Ok();
  }

  Result<ImportedCatalog> Finish() && {
    if (catalog_.provider.empty()) {
      return Status::InvalidArgument("no file says the provider; give it: --provider");
    }
    CatalogDraft::Finished finished = draft_.Finish(catalog_.region, options_.quota);
    catalog_.types = std::move(finished.types);
    if (!finished.as_of.empty()) {
      catalog_.as_of = finished.as_of;
    }
    notes_.insert(notes_.end(), finished.notes.begin(), finished.notes.end());
    return ImportedCatalog{std::move(catalog_), std::move(notes_)};
  }

 private:
  /// The one value of a column over all files, unless it was given.
  static Status Settle(
      const std::vector<Sheet>& sheets, Field field, std::string& value, const std::string& name) {
    std::set<std::string> seen;
    for (const Sheet& sheet : sheets) {
      for (const CsvTable::Row& row : sheet.rows()) {
        seen.insert(sheet.Text(row, field));
      }
    }
    seen.erase("");
    if (!value.empty() || (seen.empty() && name == "provider")) {
      return Status::Ok();
    }
    if (seen.size() != 1) {
      std::string names;
      for (const std::string& one : seen) {
        names += (names.empty() ? "; there are: " : ", ") + one;
      }
      return Status::InvalidArgument(fmt::format(
          "{}{}; give it: --{}{}",
          seen.empty() ? "no file says the " : "the files have more than one ",
          name,
          name,
          names));
    }
    value = *seen.begin();
    return Status::Ok();
  }

  Status Devices(const Sheet& sheet) {
    for (const CsvTable::Row& row : sheet.rows()) {
      PS_ASSIGN(const std::optional<double> gib, sheet.Positive(row, Field::kMemory));
      if (gib) {
        draft_.SetDeviceMemory(sheet.Text(row, Field::kDevice), *gib);
      }
    }
    return Status::Ok();
  }

  Status Types(const Sheet& sheet) {
    const bool has_prices =
        sheet.Has(Field::kOnDemand) || sheet.Has(Field::kSpot) || sheet.Has(Field::kSavingPercent);
    if (has_prices && sheet.file().as_of.empty()) {
      notes_.push_back(
          sheet.file().name + ": prices left out, because the file has no date; give one: " +
          sheet.file().name + "@2026-07-20");
    }
    for (const CsvTable::Row& row : sheet.rows()) {
      const std::string provider = sheet.Text(row, Field::kProvider);
      const std::string region = sheet.Text(row, Field::kRegion);
      const std::string name = sheet.Text(row, Field::kType);
      const bool is_ours = (provider.empty() || provider == catalog_.provider) &&
                           (region.empty() || region == catalog_.region) && !name.empty();
      if (is_ours) {
        CatalogDraft::Type& draft = draft_.At(name);
        if (draft.type.quota_family.empty() && catalog_.provider == "aws") {
          draft.type.quota_family = AwsQuotaFamily(name);
        }
        PS_TRY(Hardware(sheet, row, draft));
        if (!sheet.file().as_of.empty()) {
          PS_TRY(Prices(sheet, row, draft));
        }
      }
    }
    return Status::Ok();
  }

  static Status Hardware(const Sheet& sheet, const CsvTable::Row& row, CatalogDraft::Type& draft) {
    proto::InstanceType& type = draft.type;
    PS_ASSIGN(const std::optional<double> devices, sheet.Number(row, Field::kDevices));
    draft.has_device = draft.has_device || sheet.Has(Field::kDevice);
    if (const std::string device = sheet.Text(row, Field::kDevice); !device.empty()) {
      if (devices && *devices != std::floor(*devices)) {
        return sheet.Error(row, Field::kDevices, "allowed: a whole number");
      }
      type.device = device;
      type.devices = static_cast<int>(std::max(devices.value_or(type.devices), 1.0));
    }

    struct Target {
      Field field;
      double* member;
      double scale;
    };

    double vcpus = type.vcpus;
    const std::array<Target, 7> targets = {{
        {Field::kDeviceMemory, &type.device_memory_gib, 1},
        {Field::kVcpus, &vcpus, 1},
        {Field::kMemory, &type.memory_gib, 1},
        {Field::kNetworkGbit, &type.network_gbit_per_s, 1},
        {Field::kNetworkMbit, &type.network_gbit_per_s, 1e-3},
        {Field::kBurstGbit, &type.network_burst_gbit_per_s, 1},
        {Field::kPcie, &type.pcie_gbyte_per_s, 1},
    }};
    for (const Target& target : targets) {
      PS_ASSIGN(const std::optional<double> value, sheet.Positive(row, target.field));
      if (value) {
        *target.member = *value * target.scale;
      }
    }
    type.vcpus = static_cast<int>(vcpus);
    type.network_burst_gbit_per_s =
        sheet.GigabitWords(row, Field::kNetworkPerformance).value_or(type.network_burst_gbit_per_s);
    PS_ASSIGN(const std::optional<double> quota, sheet.Number(row, Field::kQuota));
    if (quota) {
      draft.quota = static_cast<int>(*quota);
      type.quota_is_guess = false;
    }
    return Status::Ok();
  }

  Status Prices(const Sheet& sheet, const CsvTable::Row& row, CatalogDraft::Type& draft) const {
    const std::string& as_of = sheet.file().as_of;
    PS_ASSIGN(const std::optional<double> on_demand, sheet.Positive(row, Field::kOnDemand));
    if (on_demand) {
      draft.type.on_demand_usd_per_hour = *on_demand;
      draft.price_as_of = as_of;
    }
    PS_ASSIGN(const std::optional<double> spot, sheet.Positive(row, Field::kSpot));
    if (spot) {
      const std::string zone = sheet.Text(row, Field::kZone);
      CatalogDraft::SetSpot(
          draft.type, {zone.empty() ? catalog_.region : zone, *spot, as_of, false});
    }
    PS_ASSIGN(const std::optional<double> percent, sheet.Number(row, Field::kSavingPercent));
    if (percent && *percent >= 100) {
      return sheet.Error(row, Field::kSavingPercent, "allowed: a number from 0 to below 100");
    }
    if (percent) {
      draft.saving = *percent / 100;
      draft.saving_as_of = as_of;
    }
    return Status::Ok();
  }

  /// "us-east-1" is the region of zone "us-east-1a" and of zone id "use1-az1".
  bool IsInRegion(const std::string& zone) const {
    std::string id;
    std::string_view rest = catalog_.region;
    for (bool is_first = true; !rest.empty(); is_first = false) {
      const std::string_view part = rest.substr(0, rest.find('-'));
      rest.remove_prefix(std::min(part.size() + 1, rest.size()));
      if (is_first) {
        id += part;
        continue;
      }
      const size_t half = part.find_first_of("ew", 1);  // "northeast" is "ne"
      id += part.substr(0, 1);
      if ((part.starts_with("north") || part.starts_with("south")) && half == 5) {
        id += part[half];
      }
    }
    return zone.starts_with(catalog_.region) || zone.starts_with(id + "-");
  }

  Status SpotLine(
      const ImportFile& file, const CsvTable::Row& row, std::map<std::string, std::string>& times) {
    const auto error = [&](const std::string& what) {
      return Status::InvalidArgument(fmt::format("{}:{}: {}", file.name, row.line, what));
    };
    constexpr size_t kCells = 5;
    if (row.cells.size() != kCells) {
      return error(fmt::format(
          "{} cells; allowed: zone, type, product, price and time, between tabs",
          row.cells.size()));
    }
    const std::string& zone = row.cells[0];
    const std::string& name = row.cells[1];
    const std::string& time = row.cells[4];
    if (!row.cells[2].starts_with("Linux") || !IsInRegion(zone) || !draft_.Has(name)) {
      return Status::Ok();
    }
    double usd = 0;
    const std::string& price = row.cells[3];
    const auto parsed = std::from_chars(price.data(), price.data() + price.size(), usd);
    if (parsed.ec != std::errc() || parsed.ptr != price.data() + price.size() || !(usd > 0)) {
      return error("the price is \"" + price + "\"; allowed: a number above 0");
    }
    constexpr size_t kDateSize = 10;
    if (time.size() < kDateSize) {
      return error("the time is \"" + time + "\"; allowed: such as 2022-05-31T19:28:39+00:00");
    }
    std::string& latest = times[zone + " " + name];
    if (time >= latest) {
      latest = time;
      proto::InstanceType& type = draft_.At(name).type;
      std::erase_if(type.spot, [](const proto::SpotPrice& old) { return old.is_estimate; });
      CatalogDraft::SetSpot(type, {zone, usd, time.substr(0, kDateSize), false});
    }
    return Status::Ok();
  }

  void AddSource(const ImportFile& file) {
    catalog_.source += (catalog_.source.empty() ? "" : "; ") + file.name;
    if (!file.as_of.empty() && file.name.find(file.as_of) == std::string::npos) {
      catalog_.source += " of " + file.as_of;
    }
  }

  const ImportOptions& options_;
  proto::Catalog catalog_;
  CatalogDraft draft_;
  std::vector<std::string> notes_;
};

Result<ImportedCatalog> Import(
    const proto::Catalog& base, std::span<const ImportFile> files, const ImportOptions& options) {
  PS_TRY(Importer::CheckBase(base, options));
  Importer importer(base, options);
  if (options.format == "csv") {
    PS_TRY(importer.Csv(files));
  } else if (options.format == "spot-tsv") {
    PS_TRY(importer.SpotTsv(files));
  } else {
    return Status::InvalidArgument(
        fmt::format("unknown format \"{}\"; allowed: csv, spot-tsv", options.format));
  }
  return std::move(importer).Finish();
}

}  // namespace

std::vector<std::string_view> ImportFormats() {
  return {"csv", "spot-tsv"};
}

Result<ImportedCatalog> ImportCatalog(
    const proto::Catalog& base, std::span<const ImportFile> files, const ImportOptions& options) {
  Result<ImportedCatalog> imported = Import(base, files, options);
  if (!imported.ok()) {
    // Cells may hold newlines, and the messages quote cells.
    return Status(imported.status().code(), Printable(imported.status().message()));
  }
  for (std::string& note : imported->notes) {
    note = Printable(note);
  }
  return imported;
}

}  // namespace ps::provisioner
