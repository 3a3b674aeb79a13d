#include "provisioner/rental/rent_settings.h"

#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <span>

#include "ps/base/file.h"
#include "ps/crypto/sha256.h"

namespace ps::provisioner {
namespace {

constexpr size_t kTagBytesMax = 63;
/// A machine that boots, drains and goes back is not ended under way.
constexpr Duration kRunMin = std::chrono::minutes(10);

/// After which the provider ends a machine, should nobody be there any more who does.
Duration RunMaxOf(const proto::JobConfig& config) {
  const proto::RentConfig& rent = config.launch.rent;
  const Duration limit = std::chrono::hours(rent.run_max_h);
  if (!(config.budget.usd > 0) || !(rent.usd_per_hour > 0)) {
    return limit;
  }
  const double spent_s = std::ceil(3600 * double{config.budget.usd} / double{rent.usd_per_hour});
  return Seconds(limit) < spent_s ? limit : std::max(FromSeconds(spent_s), kRunMin);
}

}  // namespace

std::vector<Pool> PoolsOf(const proto::RentConfig& rent) {
  return PoolsOf(rent, {});
}

std::vector<Pool> PoolsOf(const proto::RentConfig& rent, const proto::WorkerGroup& group) {
  const bool has_type = std::ranges::find(rent.types, group.type) != rent.types.end();
  std::vector<Pool> pools;
  for (const std::string& type : rent.types) {
    for (const std::string& zone : rent.zones) {
      const bool is_zone =
          group.zones.empty() || std::ranges::find(group.zones, zone) != group.zones.end();
      if (is_zone && (!has_type || type == group.type)) {
        pools.push_back({type, zone, rent.spot});
      }
    }
  }
  return pools;
}

std::pair<std::string, std::string> OursTag() {
  return {"spotps", "machine"};
}

std::string OwnerNameOf(const OwnerFacts& facts) {
  constexpr size_t kDigits = 8;
  const std::string all = fmt::format(
      "{}\n{}\n{}\n{}\n{}",
      facts.host,
      facts.machine_id,
      facts.user,
      facts.tmp_device,
      facts.tmp_inode);
  return TagText(facts.host.substr(0, kTagBytesMax - kDigits - 1)) + "-" +
         crypto::HexOf(crypto::Sha256Of(std::as_bytes(std::span(all)))).substr(0, kDigits);
}

std::string OwnerName() {
  constexpr size_t kIdBytesMax = 4096;
  std::array<char, 256> name = {};
  OwnerFacts facts;
  facts.host = ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
  const Result<std::string> id = ReadSmallFile("/etc/machine-id", kIdBytesMax);
  facts.machine_id = id.ok() ? *id : "";
  facts.user = ::geteuid();

  struct stat info {};

  // Containers may have one id in common. Of a machine /tmp may be another one after each start.
  std::error_code error;
  const bool is_container = std::filesystem::exists("/.dockerenv", error) ||
                            std::filesystem::exists("/run/.containerenv", error);
  if ((facts.machine_id.empty() || is_container) && ::stat("/tmp", &info) == 0) {
    facts.tmp_device = info.st_dev;
    facts.tmp_inode = info.st_ino;
  }
  return OwnerNameOf(facts);
}

std::string TagText(std::string_view text) {
  std::string tag;
  for (const char c : text.substr(0, kTagBytesMax)) {
    const auto byte = static_cast<unsigned char>(c);
    tag += std::isalnum(byte) != 0 && byte < 128 ? static_cast<char>(std::tolower(byte)) : '-';
  }
  return tag;
}

std::vector<Pool> HeadPoolsOf(const proto::RentConfig& rent) {
  std::vector<Pool> pools;
  for (const std::string& zone : rent.zones) {
    pools.push_back({rent.head.type, zone, false});
  }
  return pools;
}

double OwnRateOf(const proto::JobConfig& config) {
  const proto::RentHeadConfig& head = config.launch.rent.head;
  return head.type.empty() ? double{head.usd_per_hour} : 0;
}

HeadMachine::Options HeadOptionsOf(
    const proto::JobConfig& config, const std::string& run, std::string user_data) {
  const RentalOptions workers = RentalOptionsOf(config, run, std::move(user_data));
  const proto::RentHeadConfig& head = config.launch.rent.head;
  HeadMachine::Options options;
  options.run = run;
  options.request.pools = HeadPoolsOf(config.launch.rent);
  options.request.setup = workers.setup;
  options.request.setup.image = head.image.empty() ? workers.setup.image : head.image;
  options.request.setup.role = head.role;
  options.request.setup.disk_gib = head.disk_gib;
  options.request.setup.run_max = {};
  options.request.setup.keeps_disk = true;
  options.request.tags = workers.tags;
  options.request.tags[std::string(kHeadTag)] = "yes";
  options.boot_max = workers.boot_max;
  options.usd_per_hour = double{head.usd_per_hour};
  return options;
}

RentalOptions RentalOptionsOf(
    const proto::JobConfig& config, const std::string& run, std::string user_data) {
  const proto::RentConfig& rent = config.launch.rent;
  RentalOptions options;
  options.run = run;
  options.pools = PoolsOf(rent);
  options.setup.image = rent.image;
  options.setup.subnet = rent.subnet;
  options.setup.security_group = rent.security_group;
  options.setup.key_name = rent.key_name;
  options.setup.role = rent.role;
  options.setup.disk_gib = rent.disk_gib;
  options.setup.user_data = std::move(user_data);
  options.setup.run_max = RunMaxOf(config);
  options.tags[std::string(kNameTag)] = TagText(config.name);
  options.tags.insert(OursTag());
  options.tags[std::string(kOwnerTag)] = OwnerName();
  options.boot_max = std::chrono::seconds(rent.boot_s);
  options.idle_max = std::chrono::seconds(rent.idle_s);
  options.leave_above = double{rent.leave_above};
  if (config.budget.usd > 0) {
    options.budget.usd = double{config.budget.usd};
  }
  if (config.budget.usd_per_hour > 0) {
    options.budget.usd_per_hour =
        std::max(double{config.budget.usd_per_hour} - OwnRateOf(config), 0.0);
  }
  return options;
}

}  // namespace ps::provisioner
