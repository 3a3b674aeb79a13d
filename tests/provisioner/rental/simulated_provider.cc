#include "tests/provisioner/rental/simulated_provider.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace ps::provisioner {
namespace {

constexpr int64_t kSimulatedSecondUs = 1'000'000;

CallEnd FaultOf(CallFault fault, std::string message) {
  return {fault, std::move(message), {}};
}

std::string TextOf(const RentRequest& request) {
  std::string text = request.setup.image;
  for (const Pool& pool : request.pools) {
    text += PoolText(pool) + ",";
  }
  for (const auto& [name, value] : request.tags) {
    text += name + "=" + value + ",";
  }
  return text;
}

}  // namespace

SimulatedProvider::SimulatedProvider(uint64_t seed, bool has_later_faults)
    : random_(seed), later_random_(~seed), has_later_faults_(has_later_faults) {
  const int64_t count = Between(1, 5);
  for (int64_t i = 0; i < count; i++) {
    Pool pool{fmt::format("type{}", i % 2), fmt::format("zone{}", i / 2), Draw(0.8)};
    pools_[pool] = {
        Draw(0.8),
        {{0, static_cast<double>(Between(10, 400)) / 100}},
        pool.is_spot && Draw(0.5) ? 0.002 : 0};
  }
  quota_ = static_cast<size_t>(Draw(0.3) ? Between(1, 6) : 1000);
  never_boots_ = Draw(0.3) ? 0.1 : 0;
  throttles_ = Draw(0.4) ? 0.3 : 0;
  denies_ = Draw(0.2) ? 0.002 : 0;
  honours_tokens_ = Draw(0.85);
  price_moves_ = Draw(0.5) ? 0.001 : 0;
  stops_ = has_later_faults && later_random_() % 2 == 0 ? 0.3 : 0;
  if (has_later_faults && later_random_() % 2 == 0) {
    free_within_ = std::chrono::minutes(10);
  }
}

bool SimulatedProvider::Draw(double probability) {
  return std::uniform_real_distribution<double>(0, 1)(random_) < probability;
}

int64_t SimulatedProvider::Between(int64_t from, int64_t to) {
  return std::uniform_int_distribution<int64_t>(from, to)(random_);
}

std::vector<Pool> SimulatedProvider::pools() const {
  std::vector<Pool> pools;
  for (const auto& [pool, state] : pools_) {
    pools.push_back(pool);
  }
  return pools;
}

RentReply SimulatedProvider::Rent(const RentRequest& request, int64_t now_us) {
  RentReply reply;
  if (now_us < denied_until_us_) {
    reply.end = FaultOf(CallFault::kDenied, "the permission sim:Rent is missing");
    return reply;
  }
  if (!is_calm_ && Draw(throttles_)) {
    reply.end = FaultOf(CallFault::kThrottled, "too many calls");
    reply.end.wait = std::chrono::seconds(Between(0, 5));
    return reply;
  }
  if (const auto it = by_token_.find(request.token); it != by_token_.end() && honours_tokens_) {
    const Host& host = hosts_.at(it->second);
    if (host.request != TextOf(request)) {
      reply.end = FaultOf(CallFault::kMismatch, "the token was used with another request");
      return reply;
    }
    reply.machine = host.machine;
    return reply;
  }
  if (alive() >= quota_) {
    reply.end = FaultOf(CallFault::kQuota, fmt::format("the quota is {} machines", quota_));
    return reply;
  }
  for (const Pool& pool : request.pools) {
    const PoolState& state = pools_.at(pool);
    if (!state.has_stock) {
      reply.pool_faults.push_back({pool, FaultOf(CallFault::kNoStock, "no stock")});
      continue;
    }
    Host host;
    host.machine.id = fmt::format("m-{}", next_++);
    host.machine.token = host.token = request.token;
    host.machine.pool = pool;
    host.machine.tags = request.tags;
    host.machine.free_within = free_within_;
    host.machine.started_us = host.busy_us = now_us;
    host.request = TextOf(request);
    host.told_us = now_us + (Draw(0.3) ? Between(0, 30) * kSimulatedSecondUs : 0);
    host.running_us = Draw(never_boots_) ? 0 : now_us + Between(10, 180) * kSimulatedSecondUs;
    reply.machine = host.machine;
    by_token_[request.token] = host.machine.id;
    hosts_[host.machine.id] = std::move(host);
    return reply;
  }
  reply.end = FaultOf(CallFault::kNoStock, "no pool has a machine");
  return reply;
}

ListReply SimulatedProvider::List(
    const std::map<std::string, std::string>& tags, int64_t now_us) const {
  ListReply reply;
  for (const auto& [id, host] : hosts_) {
    const bool is_ours = std::ranges::all_of(tags, [&](const auto& tag) {
      const auto it = host.machine.tags.find(tag.first);
      return it != host.machine.tags.end() && it->second == tag.second;
    });
    constexpr int64_t kToldUs = 3600 * kSimulatedSecondUs;
    const bool is_forgotten = host.gone_us != 0 && now_us > host.gone_us + kToldUs;
    if (is_ours && now_us >= host.told_us && !is_forgotten) {
      reply.machines.push_back(host.machine);
    }
  }
  return reply;
}

CallEnd SimulatedProvider::Release(const std::vector<std::string>& ids, int64_t now_us) {
  if (!is_calm_ && Draw(throttles_)) {
    return FaultOf(CallFault::kThrottled, "too many calls");
  }
  for (const std::string& id : ids) {
    const auto it = hosts_.find(id);
    // One that it does not know yet stays.
    if (it == hosts_.end() || now_us < it->second.told_us) {
      continue;
    }
    Host& host = it->second;
    End(&host, "released", now_us);
    if (std::exchange(host.is_stopped, false)) {
      host.gone_us = now_us + 20 * kSimulatedSecondUs;
    }
  }
  return {};
}

PriceReply SimulatedProvider::Prices(
    const std::vector<Pool>& pools, int64_t since_us, int64_t now_us) const {
  PriceReply reply;
  if (has_later_faults_ && now_us < denied_until_us_) {
    reply.end = FaultOf(CallFault::kDenied, "the permission sim:Prices is missing");
    return reply;
  }
  for (const Pool& pool : pools) {
    const std::map<int64_t, double>& prices = pools_.at(pool).prices;
    auto price = std::prev(prices.upper_bound(std::min(since_us, now_us)));
    for (; price != prices.end(); ++price) {
      reply.prices.push_back({pool, price->second, price->first});
    }
  }
  return reply;
}

double SimulatedProvider::PriceAt(const Pool& pool, int64_t us) const {
  return std::prev(pools_.at(pool).prices.upper_bound(us))->second;
}

void SimulatedProvider::End(Host* host, const std::string& why, int64_t now_us) {
  if (host->machine.ended_us == 0) {
    host->machine.state = MachineState::kEnding;
    host->machine.ended_us = now_us;
    host->machine.why = why;
    host->gone_us = now_us + Between(1, 60) * kSimulatedSecondUs;
    const double drawn = std::uniform_real_distribution<double>(0, 1)(later_random_);
    if (why != "released" && drawn < stops_) {
      host->is_stopped = true;
      host->gone_us = 0;
    }
  }
}

void SimulatedProvider::TakeBack(Host* host, int64_t now_us) {
  host->machine.is_revoked = host->machine.ended_us == 0;
  End(host, "taken back", now_us);
}

void SimulatedProvider::Step(int64_t now_us) {
  for (auto& [pool, state] : pools_) {
    if (Draw(0.005)) {
      state.has_stock = !state.has_stock;
    }
    if (Draw(price_moves_)) {
      state.prices[now_us] = static_cast<double>(Between(10, 400)) / 100;
    }
  }
  if (!is_calm_ && Draw(denies_)) {
    denied_until_us_ = now_us + Between(10, 600) * kSimulatedSecondUs;
  }
  for (auto& [id, host] : hosts_) {
    Machine& machine = host.machine;
    if (machine.ended_us != 0) {
      const bool is_gone = host.gone_us != 0 && now_us >= host.gone_us;
      machine.state = is_gone ? MachineState::kGone : machine.state;
      continue;
    }
    if (Draw(pools_.at(machine.pool).reclaim)) {
      TakeBack(&host, now_us);
    } else if (now_us - host.busy_us > kWatchUs) {
      End(&host, "ended itself", now_us);
    } else if (
        machine.state == MachineState::kStarting && host.running_us != 0 &&
        now_us >= host.running_us) {
      machine.state = MachineState::kRunning;
      machine.address = "address of " + id;
    }
  }
}

void SimulatedProvider::Calm() {
  is_calm_ = true;
  denied_until_us_ = 0;
}

bool SimulatedProvider::IsThere(const std::string& id) const {
  const auto it = hosts_.find(id);
  return it != hosts_.end() && it->second.machine.ended_us == 0;
}

size_t SimulatedProvider::alive() const {
  return static_cast<size_t>(std::ranges::count_if(
      hosts_, [](const auto& entry) { return entry.second.machine.ended_us == 0; }));
}

size_t SimulatedProvider::stopped() const {
  return static_cast<size_t>(
      std::ranges::count_if(hosts_, [](const auto& entry) { return entry.second.is_stopped; }));
}

double SimulatedProvider::usd_per_hour(int64_t now_us) const {
  double sum = 0;
  for (const auto& [id, host] : hosts_) {
    sum += host.machine.ended_us == 0 ? PriceAt(host.machine.pool, now_us) : 0;
  }
  return sum;
}

double SimulatedProvider::usd(int64_t now_us) const {
  constexpr int64_t kHourUs = 3600 * kSimulatedSecondUs;
  double sum = 0;
  for (const auto& [id, host] : hosts_) {
    const int64_t begin_us = host.machine.started_us;
    const int64_t end_us = host.machine.ended_us != 0 ? host.machine.ended_us : now_us;
    if (host.machine.is_revoked &&
        std::chrono::microseconds(end_us - begin_us) < host.machine.free_within) {
      continue;
    }
    const int64_t us = std::max<int64_t>(end_us - begin_us, 60 * kSimulatedSecondUs);
    int64_t left_us = (us + kSimulatedSecondUs - 1) / kSimulatedSecondUs * kSimulatedSecondUs;
    for (int64_t hour = begin_us; left_us > 0; hour += kHourUs, left_us -= kHourUs) {
      const double hours = static_cast<double>(std::min(left_us, kHourUs)) / kHourUs;
      sum += PriceAt(host.machine.pool, hour) * hours;
    }
  }
  return sum;
}

}  // namespace ps::provisioner
