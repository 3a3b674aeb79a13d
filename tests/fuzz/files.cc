#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "provisioner/catalog/catalog_import.h"
#include "ps/base/check.h"
#include "ps/proto/files/catalog.h"
#include "ps/proto/files/plan.h"
#include "ps/proto/files/profile.h"
#include "ps/proto/job/job_config.h"
#include "tests/fuzz/targets.h"

namespace ps::fuzz {
namespace {

template <typename Parse, typename Print>
bool Check(std::string_view text, const Parse& parse, const Print& print) {
  const auto value = parse(text, "file.json");
  if (value.ok()) {
    const auto again = parse(print(*value), "printed.json");
    PS_CHECK(again.ok()) << again.status();
    PS_CHECK(*again == *value) << "printing loses something";
    return true;
  }
  const std::string_view message = value.status().message();
  PS_CHECK(message.starts_with("file.json:")) << message;
  PS_CHECK(message.find('\n') == std::string_view::npos) << message;
  return false;
}

/// What spot price histories are laid over.
proto::Catalog BaseCatalog() {
  proto::Catalog catalog;
  catalog.provider = "aws";
  catalog.region = "us-east-1";
  catalog.as_of = "2026-07-20";
  catalog.types.resize(2);
  catalog.types[0].name = "g4dn.12xlarge";
  catalog.types[1].name = "m5.xlarge";
  return catalog;
}

}  // namespace

bool FuzzJob(std::span<const uint8_t> input) {
  const auto parse = [](std::string_view text, const std::string& file) {
    return proto::ParseJobConfig(text, file);
  };
  return Check(Text(input), parse, proto::PrintJobConfig);
}

bool FuzzOverrides(std::span<const uint8_t> input) {
  constexpr std::string_view kJob =
      R"({"name": "fuzz", "model": {"name": "mlp"}, "data": {"directory": "."},
          "workers": [{"count": 2}]})";
  std::vector<proto::ConfigOverride> overrides;
  for (std::string_view text = Text(input); !text.empty();) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const size_t sign = line.find('=');
    if (sign != std::string_view::npos) {  // the command line refuses others
      overrides.push_back({std::string(line.substr(0, sign)), std::string(line.substr(sign + 1))});
    }
  }
  const auto config = proto::ParseJobConfig(kJob, "file.json", overrides);
  if (config.ok()) {
    const auto again = proto::ParseJobConfig(proto::PrintJobConfig(*config), "printed.json");
    PS_CHECK(again.ok()) << again.status();
    PS_CHECK(*again == *config) << "printing loses something";
    return true;
  }
  const std::string_view message = config.status().message();
  PS_CHECK(message.starts_with("--set:") || message.starts_with("file.json:")) << message;
  PS_CHECK(message.find('\n') == std::string_view::npos) << message;
  return false;
}

bool FuzzCatalog(std::span<const uint8_t> input) {
  return Check(Text(input), proto::ParseCatalog, proto::PrintCatalog);
}

bool FuzzProfile(std::span<const uint8_t> input) {
  return Check(Text(input), proto::ParseProfile, proto::PrintProfile);
}

bool FuzzPlan(std::span<const uint8_t> input) {
  return Check(Text(input), proto::ParsePlan, proto::PrintPlan);
}

bool FuzzImport(std::span<const uint8_t> input) {
  if (input.empty()) {
    return false;
  }
  const auto formats = provisioner::ImportFormats();
  provisioner::ImportOptions options;
  options.format = std::string(formats[input[0] % formats.size()]);
  const std::string_view text = Text(input.subspan(1));
  const size_t cut = std::min(text.find('\0'), text.size());
  std::vector<provisioner::ImportFile> files = {
      {"first.csv", std::string(text.substr(0, cut)), "2026-07-20"}};
  if (cut < text.size()) {
    files.push_back({"second.csv", std::string(text.substr(cut + 1)), ""});
  }
  const auto imported = provisioner::ImportCatalog(BaseCatalog(), files, options);
  if (!imported.ok()) {
    const std::string_view message = imported.status().message();
    PS_CHECK(!message.empty() && message.find('\n') == std::string_view::npos) << message;
    return false;
  }
  for (const std::string& note : imported->notes) {
    PS_CHECK(note.find('\n') == std::string::npos) << note;
  }
  return true;
}

}  // namespace ps::fuzz
