#include "psctl/plan/catalog_refresh_command.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <set>
#include <span>
#include <utility>

#include "provisioner/catalog/catalog_import.h"
#include "provisioner/provider/ec2.h"
#include "provisioner/provider/price_table.h"
#include "ps/base/file.h"
#include "ps/base/text.h"
#include "ps/base/time.h"
#include "ps/process/environment.h"
#include "psctl/cli/arguments.h"
#include "psctl/cli/command_line.h"
#include "run/planning/planning_files.h"

namespace ps::psctl {
namespace {

constexpr size_t kTypesOfACall = 50;

}  // namespace

Result<proto::Catalog> RefreshedCatalog(
    const proto::Catalog& catalog,
    provisioner::Provider* provider,
    int64_t now_us,
    std::vector<std::string>* notes) {
  std::vector<provisioner::PoolPrice> prices;
  std::vector<provisioner::Pool> pools;
  for (size_t i = 0; i < catalog.types.size(); ++i) {
    pools.push_back({.type = catalog.types[i].name, .zone = "", .is_spot = true});
    if (pools.size() == kTypesOfACall || i + 1 == catalog.types.size()) {
      const provisioner::PriceReply reply = provider->Prices(pools, now_us);
      if (!reply.end.ok()) {
        return Status::Unavailable(reply.end.message);
      }
      prices.insert(prices.end(), reply.prices.begin(), reply.prices.end());
      pools.clear();
    }
  }
  if (prices.empty()) {
    return Status::NotFound(fmt::format(
        "{} tells no spot price of the {} in {}",
        provider->name(),
        Plural(catalog.types.size(), "type"),
        catalog.region));
  }
  std::set<std::string> without;
  for (const proto::InstanceType& type : catalog.types) {
    without.insert(type.name);
  }
  for (const provisioner::PoolPrice& price : prices) {
    without.erase(price.pool.type);
  }
  if (!without.empty()) {
    notes->push_back("no spot price, so that of the catalog stays: " + Join(without));
  }
  const provisioner::ImportFile file = {
      .name = std::string(provider->name()),
      .text = provisioner::SpotPriceTable(prices),
      .as_of = {}};
  provisioner::ImportOptions options;
  options.format = "spot-tsv";
  PS_ASSIGN(
      provisioner::ImportedCatalog imported,
      provisioner::ImportCatalog(catalog, std::span(&file, 1), options));
  notes->insert(notes->end(), imported.notes.begin(), imported.notes.end());
  return std::move(imported.catalog);
}

int RunCatalogRefresh(const CatalogRefreshCommand& command, const run::Console& console) {
  const Result<proto::Catalog> catalog = run::LoadCatalog(command.file);
  if (!catalog.ok()) {
    return run::Misuse(console, catalog.status());
  }
  const auto provider =
      provisioner::OpenEc2Provider(ProcessEnvironment(), catalog->region, "", nullptr);
  if (!provider.ok()) {
    return run::Fail(console, provider.status());
  }
  std::vector<std::string> notes;
  const auto fresh = RefreshedCatalog(*catalog, provider->get(), SystemTime().UnixMicros(), &notes);
  if (!fresh.ok()) {
    return run::Fail(console, fresh.status());
  }
  for (const std::string& note : notes) {
    console.err("psctl: " + note + "\n");
  }
  const std::string text = proto::PrintCatalog(*fresh);
  if (command.output.empty()) {
    console.out(text);
    return run::kExitOk;
  }
  if (const Status written = WriteFileAtomically(command.output, text); !written.ok()) {
    return run::Fail(console, written);
  }
  console.err(command.output + ": " + Plural(fresh->types.size(), "type") + "\n");
  return run::kExitOk;
}

namespace {

const std::vector<std::string>& PriceTellers() {
  static const std::vector<std::string> names = {"ec2"};
  return names;
}

void AddRefresh(CatalogRefreshCommand* command, Arguments* arguments) {
  arguments->Add("PROVIDER", &command->provider, "Whom to ask: ec2, with its usual keys")
      .Required();
  arguments->Check([command] { return CheckOneOf("provider", command->provider, PriceTellers()); });
  arguments->Add("FILE,--catalog", &command->file, "Catalog; configs/catalog/aws.json if absent");
  arguments->Add("-o,--output", &command->output, "File; else stdout").Value("FILE");
}

int Refresh(const CatalogRefreshCommand& command, const Session& session) {
  return RunCatalogRefresh(command, session.console);
}

}  // namespace

constinit const Command kCatalogRefresh = {
    .path = "catalog refresh",
    .help = "Bring the spot prices of a catalog up to date",
    .examples =
        {{{"psctl catalog refresh ec2 -o mine.json", "the default catalog at today's prices"}}},
    .declare = Declare<CatalogRefreshCommand, AddRefresh, Refresh>};

}  // namespace ps::psctl
