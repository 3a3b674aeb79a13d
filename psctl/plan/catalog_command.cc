#include "psctl/plan/catalog_command.h"

#include <regex>

#include "provisioner/catalog/catalog_import.h"
#include "ps/base/file.h"
#include "ps/base/text.h"
#include "psctl/cli/arguments.h"
#include "psctl/cli/command_line.h"
#include "psctl/view/catalog_view.h"
#include "run/directory/files.h"
#include "run/planning/planning_files.h"

namespace ps::psctl {
namespace {

/// "prices.csv@2026-07-20", or the date in the file's own name.
Result<provisioner::ImportFile> ReadImportFile(const std::string& argument) {
  static const std::regex kDated("(.*)@([0-9]{4}-[0-9]{2}-[0-9]{2})");
  static const std::regex kDate("[0-9]{4}-[0-9]{2}-[0-9]{2}");
  std::smatch match;
  std::string path = argument;
  provisioner::ImportFile file;
  if (std::regex_match(argument, match, kDated)) {
    path = match[1];
    file.as_of = match[2];
  } else if (const std::string name = run::BaseName(argument);
             std::regex_search(name, match, kDate)) {
    file.as_of = match[0];
  }
  file.name = run::BaseName(path);
  PS_ASSIGN(file.text, ReadFile(path));
  return file;
}

Result<provisioner::ImportedCatalog> Import(const CatalogImportCommand& command) {
  proto::Catalog base;
  std::vector<provisioner::ImportFile> files;
  for (const std::string& argument : command.files) {
    if (argument.ends_with(".json")) {
      if (!base.types.empty()) {
        return Status::InvalidArgument("two catalogs to start from; give one .json file");
      }
      PS_ASSIGN(base, run::LoadCatalog(argument));
    } else {
      PS_ASSIGN(provisioner::ImportFile file, ReadImportFile(argument));
      files.push_back(std::move(file));
    }
  }
  const provisioner::ImportOptions options = {
      command.format, command.provider, command.region, command.quota};
  PS_ASSIGN(
      provisioner::ImportedCatalog imported, provisioner::ImportCatalog(base, files, options));
  // The files together may still lack parts of a catalog.
  const std::string text = proto::PrintCatalog(imported.catalog);
  const Result<proto::Catalog> parsed = proto::ParseCatalog(text, "imported catalog");
  if (!parsed.ok()) {
    std::string notes;
    for (const std::string& note : imported.notes) {
      notes += "; " + note;
    }
    return Status::InvalidArgument(std::string(parsed.status().message()) + notes);
  }
  return imported;
}

}  // namespace

int RunCatalogShow(
    const CatalogShowCommand& command, const std::string& today, const run::Console& console) {
  const Result<proto::Catalog> catalog = run::LoadCatalog(command.file);
  if (!catalog.ok()) {
    return run::Misuse(console, catalog.status());
  }
  console.out(
      command.is_json ? proto::PrintCatalog(*catalog)
                      : RenderCatalog(*catalog, command.sort, today, console.out_width));
  return run::kExitOk;
}

int RunCatalogCheck(
    const CatalogCheckCommand& command, const std::string& today, const run::Console& console) {
  const Result<proto::Catalog> catalog = run::LoadCatalog(command.file);
  if (!catalog.ok()) {
    const bool is_checked = catalog.status().code() == StatusCode::kInvalidArgument;
    return is_checked ? run::Fail(console, catalog.status())
                      : run::Misuse(console, catalog.status());
  }
  const std::vector<std::string> warnings = CatalogWarnings(*catalog, today);
  for (const std::string& warning : warnings) {
    console.out(command.file + ": warning: " + warning + "\n");
  }
  console.out(
      command.file + ": " + Plural(catalog->types.size(), "type") + ", no errors, " +
      Plural(warnings.size(), "warning") + "\n");
  return run::kExitOk;
}

int RunCatalogImport(const CatalogImportCommand& command, const run::Console& console) {
  const Result<provisioner::ImportedCatalog> imported = Import(command);
  if (!imported.ok()) {
    return run::Misuse(console, imported.status());
  }
  for (const std::string& note : imported->notes) {
    console.err("psctl: " + note + "\n");
  }
  const std::string text = proto::PrintCatalog(imported->catalog);
  if (command.output.empty()) {
    console.out(text);
    return run::kExitOk;
  }
  if (const Status written = WriteFileAtomically(command.output, text); !written.ok()) {
    return run::Fail(console, written);
  }
  console.err(command.output + ": " + Plural(imported->catalog.types.size(), "type") + "\n");
  return run::kExitOk;
}

namespace {

void AddShow(CatalogShowCommand* command, Arguments* arguments) {
  arguments->Add("FILE,--catalog", &command->file, "Catalog; configs/catalog/aws.json if absent");
  arguments->Add("--sort", &command->sort, "By " + Join(CatalogSortOrders()));
  arguments->Check(
      [command] { return CheckOneOf("sort order", command->sort, CatalogSortOrders()); });
  arguments->Add("--json", &command->is_json, "Print the catalog as JSON");
}

void AddCheck(CatalogCheckCommand* command, Arguments* arguments) {
  arguments->Add("FILE,--catalog", &command->file, "Catalog").Required();
}

void AddImport(CatalogImportCommand* command, Arguments* arguments) {
  arguments->Add("--from", &command->format, "csv: tables; spot-tsv: price history").Required();
  arguments->Check([command] {
    const std::vector<std::string_view> formats = provisioner::ImportFormats();
    return CheckOneOf("format", command->format, {formats.begin(), formats.end()});
  });
  arguments
      ->Add(
          "FILE",
          &command->files,
          "FILE or FILE@DATE, the day of its prices. A .json file is a catalog to start from")
      .Required();
  arguments->Add("--provider", &command->provider, "Only its types");
  arguments->Add("--region", &command->region, "Only its prices");
  arguments->Add("--quota", &command->quota, "Of each type for which no file says; 10");
  arguments->Add("-o,--output", &command->output, "File; else stdout").Value("FILE");
}

int Show(const CatalogShowCommand& command, const Session& session) {
  return RunCatalogShow(command, session.today, session.console);
}

int Check(const CatalogCheckCommand& command, const Session& session) {
  return RunCatalogCheck(command, session.today, session.console);
}

int Import(const CatalogImportCommand& command, const Session& session) {
  return RunCatalogImport(command, session.console);
}

}  // namespace

constinit const Command kCatalog = {
    .path = "catalog",
    .group = Group::kPlan,
    .help = "Show, check or make a list of what can be rented"};

constinit const Command kCatalogShow = {
    .path = "catalog show",
    .help = "Show types, prices and how old they are",
    .examples = {{{"psctl catalog show", "what can be rented, for how much"}}},
    .declare = Declare<CatalogShowCommand, AddShow, Show>};

constinit const Command kCatalogCheck = {
    .path = "catalog check",
    .help = "Say what is wrong with a catalog",
    .declare = Declare<CatalogCheckCommand, AddCheck, Check>};

constinit const Command kCatalogImport = {
    .path = "catalog import",
    .help = "Make a catalog of public tables",
    .declare = Declare<CatalogImportCommand, AddImport, Import>};

}  // namespace ps::psctl
