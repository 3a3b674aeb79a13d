#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ps/base/status.h"
#include "ps/proto/files/catalog.h"

namespace ps::provisioner {

// Makes a catalog of price lists and hardware tables. Pure: text in, values out.

/// One of the files that a catalog is made of.
struct ImportFile {
  std::string name;  // for errors and for the catalog's source
  std::string text;
  std::string as_of;  // the day of its prices, "2026-07-20"; empty: it has none
};

struct ImportOptions {
  std::string format;    // one of ImportFormats()
  std::string provider;  // empty: as the files say; else other providers' rows are left out
  std::string region;    // empty: the only one in the files; else other regions' rows are left out
  int quota = 10;        // of types for which no file says
};

struct ImportedCatalog {
  proto::Catalog catalog;
  std::vector<std::string> notes;  // what was left out and why, a line each
};

/// "csv": tables with a header line. Columns are known by name, so that hardware tables, price
/// lists and quotas of several makers can be given together; a file without a type column but with
/// gpu_model and memory_gib tells the memory of accelerators. A later file overrides an earlier
/// one; prices of a file without a date are left out. A spot price may be given as such, or as a
/// saving over on-demand, which makes an estimate. Types without an accelerator may hold
/// parameters.
///
/// "spot-tsv": lines of zone, type, product, price and time, as the spot price histories that
/// people publish; of a type and zone the latest Linux price counts.
std::vector<std::string_view> ImportFormats();

/// `base` is a catalog that the files are laid over; empty types: none. Types that end up without a
/// network rate or a price are left out, which `notes` say, so the result may lack what
/// ParseCatalog asks for. Errors: kInvalidArgument, one line: "FILE:LINE: column: what; what is
/// allowed".
Result<ImportedCatalog> ImportCatalog(
    const proto::Catalog& base, std::span<const ImportFile> files, const ImportOptions& options);

}  // namespace ps::provisioner
