#pragma once

#include <string>
#include <vector>

#include "provisioner/provider/provider.h"
#include "ps/base/status.h"
#include "ps/proto/files/catalog.h"
#include "psctl/cli/command.h"
#include "run/report/console.h"

namespace ps::psctl {

/// `psctl catalog refresh`.
struct CatalogRefreshCommand {
  std::string provider;  // "ec2"
  std::string file;      // empty: the default catalog
  std::string output;    // empty: stdout
};

/// The catalog with the spot prices that `provider` tells of its types now, in each zone; `notes`
/// gets a line for types that have none. `now_us` since 1970. Errors: kUnavailable (what the
/// provider said), kNotFound (it tells no price of these types).
Result<proto::Catalog> RefreshedCatalog(
    const proto::Catalog& catalog,
    provisioner::Provider* provider,
    int64_t now_us,
    std::vector<std::string>* notes);

/// Returns the exit code. Keys are looked for in this process's environment.
int RunCatalogRefresh(const CatalogRefreshCommand& command, const run::Console& console);

extern const Command kCatalogRefresh;

}  // namespace ps::psctl
