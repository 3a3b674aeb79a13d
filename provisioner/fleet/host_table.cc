#include "provisioner/fleet/host_table.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "ps/base/text.h"

namespace ps::provisioner {
namespace {

constexpr Duration kLeftOutFirst = std::chrono::seconds(10);
constexpr Duration kLeftOutMost = std::chrono::minutes(10);
constexpr uint32_t kDoublingsMax = 6;

}  // namespace

HostTable::HostTable(const std::vector<proto::HostConfig>& hosts, std::string name)
    : name_(std::move(name)) {
  for (const proto::HostConfig& host : hosts) {
    hosts_.push_back({host.host, host.zone, host.slots, 0, 0, {}});
  }
}

HostTable::Host* HostTable::Find(const std::string& name) {
  const auto it = std::find_if(
      hosts_.begin(), hosts_.end(), [&](const Host& host) { return host.name == name; });
  return it == hosts_.end() ? nullptr : &*it;
}

Result<std::string> HostTable::Take(TimePoint now, const std::string& zone) {
  Host* best = nullptr;
  std::string why;
  for (Host& host : hosts_) {
    if (host.zone != zone) {
      continue;
    }
    if (host.used >= host.slots) {
      why += fmt::format("{}{} is full", why.empty() ? "" : ", ", host.name);
    } else if (now < host.left_out_until) {
      why += fmt::format(
          "{}{} is left out for {} after {}",
          why.empty() ? "" : ", ",
          host.name,
          FormatDuration(Seconds(host.left_out_until - now)),
          Plural(host.failures, "failure"));
    } else if (
        best == nullptr || uint64_t{host.used} * best->slots < uint64_t{best->used} * host.slots) {
      best = &host;
    }
  }
  if (best == nullptr) {
    const std::string where = zone.empty() ? "" : " in zone " + zone;
    return Status::Unavailable(fmt::format(
        "{} has no free slot{}: {}", name_, where, why.empty() ? "no host is there" : why));
  }
  ++best->used;
  return best->name;
}

void HostTable::TakeOn(const std::string& name) {
  if (Host* const host = Find(name)) {
    ++host->used;
  }
}

void HostTable::Release(const std::string& name, bool failed, TimePoint now) {
  Host* const host = Find(name);
  if (host == nullptr || host->used == 0) {
    return;
  }
  --host->used;
  if (!failed) {
    host->failures = 0;
    return;
  }
  if (now < host->left_out_until) {
    return;  // one fault of the host may end several of its processes
  }
  const Duration wait = kLeftOutFirst * (1 << std::min(host->failures, kDoublingsMax));
  ++host->failures;
  host->left_out_until = now + std::min(wait, kLeftOutMost);
}

}  // namespace ps::provisioner
