#include "provisioner/rental/rent_settings.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

namespace ps::provisioner {
namespace {

constexpr size_t kUserDataBytesMax = size_t{16} << 10;
constexpr size_t kTagBytesMax = 63;
/// A machine that boots, drains and goes back is not ended under way.
constexpr Duration kRunMin = std::chrono::minutes(10);

/// Texts in it are quoted by here-documents whose last line they can't have.
/// {0}: seconds. {1}: the job's script. {2}, {3}: the host key.
/// The shell that a process runs behind is found by its command line (SshBootstrap); the pattern
/// does not match the command line that it stands on.
constexpr const char* kScript = R"sh(#!/bin/sh
# A machine of spotps. See provisioner/rental/rent_settings.h.
root="${{SPOTPS_ROOT:-}}"
mkdir -p "$root/usr/local/sbin" "$root/var/lib/spotps"
cat > "$root/usr/local/sbin/spotps-end" <<'SPOTPS_END'
#!/bin/sh
# A machine of Compute Engine that shuts down keeps its disk, which costs: it deletes itself, where
# its service account may.
ask() {{
  curl -sf -m 10 -H 'Metadata-Flavor: Google' \
    "http://metadata.google.internal/computeMetadata/v1/instance/$1"
}}
if token=$(ask service-accounts/default/token) && zone=$(ask zone) && name=$(ask name); then
  token=$(echo "$token" | sed 's/.*"access_token" *: *"\([^"]*\)".*/\1/')
  curl -sf -m 60 -o /dev/null -X DELETE -H "Authorization: Bearer $token" \
    "https://compute.googleapis.com/compute/v1/$zone/instances/$name"
fi
shutdown -h now || poweroff -f
SPOTPS_END
chmod 755 "$root/usr/local/sbin/spotps-end"
cat > "$root/usr/local/sbin/spotps-watch" <<'SPOTPS_END'
#!/bin/sh
# Without a program of spotps for {0} s this machine ends.
seconds() {{ cut -d. -f1 /proc/uptime; }}
last=$(seconds)
while sleep "${{SPOTPS_WATCH_EVERY_S:-10}}"; do
  now=$(seconds)
  if grep -qsa ': spotps[ ]process;' "${{SPOTPS_PROC:-/proc}}"/[0-9]*/cmdline; then
    last=$now
  fi
  if [ $((now - last)) -gt {0} ]; then
    "${{0%/*}}/spotps-end"
    exit
  fi
done
SPOTPS_END
chmod 755 "$root/usr/local/sbin/spotps-watch"
setsid "$root/usr/local/sbin/spotps-watch" > /dev/null 2>&1 < /dev/null &
cat > "$root/var/lib/spotps/setup" <<'SPOTPS_END'
{1}
SPOTPS_END
chmod 700 "$root/var/lib/spotps/setup"
setup="$root/var/lib/spotps/setup"
if [ -n "$(head -c 1 "$setup")" ]; then
  "$setup" > "$root/var/log/spotps-setup.log" 2>&1 || {{
    "$root/usr/local/sbin/spotps-end"
    exit 1
  }}
fi
umask 077
cat > "$root/etc/ssh/ssh_host_ed25519_key" <<'SPOTPS_END'
{2}
SPOTPS_END
cat > "$root/etc/ssh/ssh_host_ed25519_key.pub" <<'SPOTPS_END'
{3}
SPOTPS_END
systemctl restart ssh || systemctl restart sshd || service ssh restart || service sshd restart
)sh";

std::string_view WithoutNewlines(std::string_view text) {
  const size_t last = text.find_last_not_of('\n');
  return last == std::string_view::npos ? "" : text.substr(0, last + 1);
}

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

std::string OwnerName() {
  std::array<char, 256> name = {};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? TagText(name.data()) : "unknown";
}

std::string TagText(std::string_view text) {
  std::string tag;
  for (const char c : text.substr(0, kTagBytesMax)) {
    const auto byte = static_cast<unsigned char>(c);
    tag += std::isalnum(byte) != 0 && byte < 128 ? static_cast<char>(std::tolower(byte)) : '-';
  }
  return tag;
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
  if (config.budget.usd > 0) {
    options.budget.usd = double{config.budget.usd};
  }
  if (config.budget.usd_per_hour > 0) {
    options.budget.usd_per_hour = double{config.budget.usd_per_hour};
  }
  return options;
}

Result<std::string> MachineScript(uint32_t watch_min, std::string_view setup, const HostKey& key) {
  std::string script = fmt::format(
      fmt::runtime(kScript),
      watch_min * 60,
      WithoutNewlines(setup),
      WithoutNewlines(key.secret),
      WithoutNewlines(key.open));
  if (script.size() > kUserDataBytesMax) {
    return Status::InvalidArgument(fmt::format(
        "launch.rent.setup is {} bytes too long for a provider ({} with what spotps adds); let it "
        "fetch what it runs",
        script.size() - kUserDataBytesMax,
        kUserDataBytesMax));
  }
  if (!setup.empty() && !setup.starts_with("#!")) {
    return Status::InvalidArgument(
        "launch.rent.setup does not begin with #! and the path of what runs it, for example "
        "#!/bin/sh");
  }
  constexpr std::string_view kEnd = "SPOTPS_END";
  if (setup.find(kEnd) != std::string_view::npos) {
    return Status::InvalidArgument("launch.rent.setup has a line SPOTPS_END, which ends it");
  }
  return script;
}

}  // namespace ps::provisioner
