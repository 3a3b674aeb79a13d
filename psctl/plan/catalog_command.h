#pragma once

#include <string>
#include <vector>

#include "psctl/cli/command.h"
#include "run/report/console.h"

namespace ps::psctl {

/// `psctl catalog show`.
struct CatalogShowCommand {
  std::string file;  // empty: the default catalog
  std::string sort = "price";
  bool is_json = false;
};

/// `psctl catalog check`.
struct CatalogCheckCommand {
  std::string file;
};

/// `psctl catalog import`.
struct CatalogImportCommand {
  std::string format;
  std::vector<std::string> files;  // "FILE" or "FILE@DATE"
  std::string provider;
  std::string region;
  int quota = 10;
  std::string output;  // empty: stdout
};

/// Each returns the exit code. `today` as "2026-07-20".
int RunCatalogShow(
    const CatalogShowCommand& command, const std::string& today, const run::Console& console);
int RunCatalogCheck(
    const CatalogCheckCommand& command, const std::string& today, const run::Console& console);
int RunCatalogImport(const CatalogImportCommand& command, const run::Console& console);

extern const Command kCatalog;
extern const Command kCatalogShow;
extern const Command kCatalogCheck;
extern const Command kCatalogImport;

}  // namespace ps::psctl
