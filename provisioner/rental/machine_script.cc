#include "provisioner/rental/machine_script.h"

#include <fmt/core.h>

namespace ps::provisioner {
namespace {

constexpr size_t kUserDataBytesMax = size_t{16} << 10;

/// Texts in it are quoted by here-documents whose last line they can't have.
/// {0}: seconds. {1}: the job's script. {2}, {3}: the key of the host. {4}: how it ends. {5}: as
/// whom, and {6}: by which key psctl gets in.
/// The shell that a process runs behind is found by its command line (SshBootstrap); the pattern
/// does not match the command line that it stands on.
constexpr const char* kScript = R"sh(#!/bin/sh
# A machine of spotps. See provisioner/rental/machine_script.h.
root="${{SPOTPS_ROOT:-}}"
mkdir -p "$root/usr/local/sbin" "$root/var/lib/spotps"
cat > "$root/usr/local/sbin/spotps-end" <<'SPOTPS_END'
#!/bin/sh
{4}shutdown -h now || poweroff -f
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
boots="$root/var/lib/cloud/scripts/per-boot"
if [ -d "$boots" ]; then
  printf '%s\n' '#!/bin/sh' 'setsid /usr/local/sbin/spotps-watch > /dev/null 2>&1 < /dev/null &' \
    > "$boots/spotps"
  chmod 755 "$boots/spotps"
fi
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
id {5} > /dev/null 2>&1 || useradd -m -s /bin/sh {5}
home="$root$(getent passwd {5} | cut -d: -f6)"
umask 077
mkdir -p "$home/.ssh"
grep -qsxF '{6}' "$home/.ssh/authorized_keys" || echo '{6}' >> "$home/.ssh/authorized_keys"
chown -R {5}: "$home/.ssh"
cat > "$root/etc/ssh/ssh_host_ed25519_key" <<'SPOTPS_END'
{2}
SPOTPS_END
cat > "$root/etc/ssh/ssh_host_ed25519_key.pub" <<'SPOTPS_END'
{3}
SPOTPS_END
systemctl restart ssh || systemctl restart sshd || service ssh restart || service sshd restart
)sh";

/// How a machine ends for good whose disk nobody needs.
constexpr const char* kDelete = R"sh(
# A machine of Compute Engine that shuts down keeps its disk, which costs: it deletes itself, where
# its service account may.
ask() {
  curl -sf -m 10 -H 'Metadata-Flavor: Google' \
    "http://metadata.google.internal/computeMetadata/v1/instance/$1"
}
if token=$(ask service-accounts/default/token) && zone=$(ask zone) && name=$(ask name); then
  token=$(echo "$token" | sed 's/.*"access_token" *: *"\([^"]*\)".*/\1/')
  curl -sf -m 60 -o /dev/null -X DELETE -H "Authorization: Bearer $token" \
    "https://compute.googleapis.com/compute/v1/$zone/instances/$name"
fi
)sh";

std::string_view WithoutNewlines(std::string_view text) {
  const size_t last = text.find_last_not_of('\n');
  return last == std::string_view::npos ? "" : text.substr(0, last + 1);
}

}  // namespace

Result<std::string> MachineScript(const MachineBoot& boot) {
  std::string script = fmt::format(
      fmt::runtime(kScript),
      boot.watch_min * 60,
      WithoutNewlines(boot.setup),
      WithoutNewlines(boot.keys.host_secret),
      WithoutNewlines(boot.keys.host),
      boot.keeps_disk ? "" : kDelete,
      boot.user,
      WithoutNewlines(boot.keys.login));
  if (script.size() > kUserDataBytesMax) {
    return Status::InvalidArgument(fmt::format(
        "launch.rent.setup is {} bytes too long for a provider ({} with what spotps adds); let it "
        "fetch what it runs",
        script.size() - kUserDataBytesMax,
        kUserDataBytesMax));
  }
  if (!boot.setup.empty() && !boot.setup.starts_with("#!")) {
    return Status::InvalidArgument(
        "launch.rent.setup does not begin with #! and the path of what runs it, for example "
        "#!/bin/sh");
  }
  constexpr std::string_view kEnd = "SPOTPS_END";
  if (boot.setup.find(kEnd) != std::string_view::npos) {
    return Status::InvalidArgument("launch.rent.setup has a line SPOTPS_END, which ends it");
  }
  return script;
}

}  // namespace ps::provisioner
