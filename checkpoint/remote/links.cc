#include "checkpoint/remote/links.h"

#include <fmt/core.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <utility>

#include "ps/base/file.h"

namespace ps::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "links-";
constexpr size_t kSmallFileMax = 4096;
/// No copy takes so long.
constexpr auto kStrangersLife = std::chrono::hours(7 * 24);
/// Index of the start time among the fields of /proc/PID/stat that follow the name. The name may
/// have blanks and brackets in it.
constexpr int kStartField = 19;

uint64_t HashOf(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  return hash;
}

std::string TextAt(const std::string& path) {
  Result<std::string> text = ReadFile(path, kSmallFileMax);
  return text.ok() ? *std::move(text) : "";
}

/// Nothing: there is no such process.
std::optional<uint64_t> StartTicksAt(const std::string& process) {
  const std::string stat = TextAt("/proc/" + process + "/stat");
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) {
    return std::nullopt;
  }
  std::string_view rest = std::string_view(stat).substr(name_end + 1);
  for (int field = 0; field <= kStartField; ++field) {
    const size_t blank = rest.find(' ');
    rest.remove_prefix(blank == std::string_view::npos ? rest.size() : blank + 1);
  }
  uint64_t ticks = 0;
  const auto parsed = std::from_chars(rest.data(), rest.data() + rest.size(), ticks);
  return parsed.ec == std::errc() ? std::optional(ticks) : std::nullopt;
}

bool IsOlderThanAWeek(const fs::path& folder) {
  std::error_code error;
  const fs::file_time_type changed = fs::last_write_time(folder, error);
  return !error && fs::file_time_type::clock::now() - changed > kStrangersLife;
}

/// Whether the owner of a folder is gone, as far as this process can tell.
bool IsLeftBehind(const fs::path& folder, const ProcessIdentity& self) {
  const std::optional<ProcessIdentity> owner = Links::OwnerOf(folder.filename().string());
  if (!owner || owner->machine != self.machine) {
    return IsOlderThanAWeek(folder);
  }
  if (owner->boot != self.boot) {
    return true;
  }
  return owner->pid_namespace == self.pid_namespace
             ? StartTicksAt(std::to_string(owner->pid)) != owner->start_ticks
             : IsOlderThanAWeek(folder);
}

}  // namespace

ProcessIdentity ThisProcess() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  std::error_code error;
  return {
      HashOf(TextAt("/etc/machine-id") + name.data()),
      HashOf(TextAt("/proc/sys/kernel/random/boot_id")),
      HashOf(fs::read_symlink("/proc/self/ns/pid", error).string()),
      static_cast<uint64_t>(::getpid()),
      StartTicksAt("self").value_or(0)};
}

std::string Links::NameOf(const ProcessIdentity& owner, int number) {
  return fmt::format(
      "{}{:x}-{:x}-{:x}-{:x}-{:x}-{:x}",
      kPrefix,
      owner.machine,
      owner.boot,
      owner.pid_namespace,
      owner.pid,
      owner.start_ticks,
      number);
}

std::optional<ProcessIdentity> Links::OwnerOf(std::string_view name) {
  if (!name.starts_with(kPrefix)) {
    return std::nullopt;
  }
  name.remove_prefix(kPrefix.size());
  ProcessIdentity owner;
  for (uint64_t* const field :
       {&owner.machine, &owner.boot, &owner.pid_namespace, &owner.pid, &owner.start_ticks}) {
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), *field, 16);
    if (error != std::errc() || end == name.data() + name.size() || *end != '-') {
      return std::nullopt;
    }
    name.remove_prefix(static_cast<size_t>(end - name.data()) + 1);
  }
  return owner;
}

Links::Links(std::string path) : path_(std::move(path)) {}

Links::Links(Links&& other) noexcept : path_(std::exchange(other.path_, {})) {}

Links::~Links() {
  std::error_code error;
  if (!path_.empty()) {
    fs::remove_all(path_, error);
  }
}

Result<Links> Links::Create(const std::string& path) {
  const ProcessIdentity self = ThisProcess();
  std::error_code error;
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name.starts_with(kPrefix) && IsLeftBehind(it->path(), self)) {
      std::error_code removal;
      fs::remove_all(it->path(), removal);
    }
  }
  static std::atomic<int> count = 0;
  const std::string made = path + "/" + NameOf(self, ++count);
  error.clear();
  if (!fs::create_directory(made, error)) {
    return Status::Io(fmt::format("cannot create {}: {}", made, error.message()));
  }
  return Links(made);
}

}  // namespace ps::checkpoint
