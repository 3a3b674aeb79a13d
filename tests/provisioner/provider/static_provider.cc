#include "tests/provisioner/provider/static_provider.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "provisioner/provider/request_check.h"

namespace ps::provisioner {
namespace {

class StaticProvider final : public Provider {
 public:
  StaticProvider(std::vector<StaticHost> hosts, const TimeSource* time)
      : hosts_(std::move(hosts)), time_(time) {}

  std::string_view name() const override { return "static"; }

  RentReply Rent(const RentRequest& request) override {
    RentReply rent;
    rent.end = CheckRequest(request);
    if (!rent.end.ok()) {
      return rent;
    }
    const std::string digest = RequestDigest(request);
    if (const auto before = taken_.find(request.token); before != taken_.end()) {
      return Again(before->second, digest);
    }
    for (const Pool& pool : request.pools) {
      if (const StaticHost* const host = FreeHost(pool)) {
        Machine machine;
        machine.id = fmt::format("{}-{}", host->address, ++count_);
        machine.token = request.token;
        machine.pool = pool;
        machine.state = MachineState::kRunning;
        machine.address = host->address;
        machine.private_address = host->address;
        machine.tags = request.tags;
        machine.started_us = time_->UnixMicros();
        taken_[request.token] = {.machine = machine, .digest = digest};
        rent.machine = std::move(machine);
        return rent;
      }
      const CallEnd end = {
          .fault = CallFault::kNoStock,
          .message = fmt::format("no host of {} is free", PoolText(pool))};
      rent.pool_faults.push_back({.pool = pool, .end = end});
    }
    rent.end = rent.pool_faults.front().end;
    return rent;
  }

  ListReply List(const std::map<std::string, std::string>& tags) override {
    ListReply list;
    for (const auto& [token, taken] : taken_) {
      if (HasAllTags(taken.machine.tags, tags)) {
        list.machines.push_back(taken.machine);
      }
    }
    return list;
  }

  CallEnd Release(const std::vector<std::string>& ids) override {
    // The token stays used: a machine that was given back is not given again for it.
    for (auto& [token, taken] : taken_) {
      if (std::find(ids.begin(), ids.end(), taken.machine.id) != ids.end()) {
        if (IsThere(taken.machine.state)) {
          taken.machine.ended_us = time_->UnixMicros();
        }
        taken.machine.state = MachineState::kGone;
        taken.machine.why = "released";
      }
    }
    return {};
  }

  /// Nobody is paid by the hour.
  PriceReply Prices(const std::vector<Pool>& /*pools*/, int64_t /*since_us*/) override {
    return {};
  }

  CallEnd Tidy(const std::map<std::string, std::string>& /*tags*/) override { return {}; }

  std::vector<CheckLine> Check(const RentRequest& request) override {
    std::vector<CheckLine> lines = {
        {.what = "request", .end = CheckRequest(request), .finding = {}}};
    for (const Pool& pool : request.pools) {
      const auto count = std::count_if(
          hosts_.begin(), hosts_.end(), [&](const StaticHost& host) { return host.pool == pool; });
      CheckLine line = {
          .what = "hosts of " + PoolText(pool),
          .end = {},
          .finding = fmt::format("{}", count),
          .pools = {pool}};
      if (count == 0) {
        line.end = Refused(fmt::format("no host of {} is in the list", PoolText(pool)));
      }
      lines.push_back(std::move(line));
    }
    return lines;
  }

 private:
  struct Taken {
    Machine machine;
    std::string digest;  // of the request
  };

  static RentReply Again(const Taken& taken, const std::string& digest) {
    RentReply rent;
    if (taken.digest == digest) {
      rent.machine = taken.machine;
    } else {
      rent.end = {
          .fault = CallFault::kMismatch,
          .message = fmt::format(
              "the token {} has {} for another request",
              taken.machine.token,
              taken.machine.address)};
    }
    return rent;
  }

  const StaticHost* FreeHost(const Pool& pool) const {
    std::set<std::string> busy;
    for (const auto& [token, taken] : taken_) {
      if (taken.machine.state != MachineState::kGone) {
        busy.insert(taken.machine.address);
      }
    }
    const auto it = std::find_if(hosts_.begin(), hosts_.end(), [&](const StaticHost& host) {
      return host.pool == pool && !busy.contains(host.address);
    });
    return it == hosts_.end() ? nullptr : &*it;
  }

  const std::vector<StaticHost> hosts_;
  const TimeSource* const time_;
  std::map<std::string, Taken> taken_;  // by token; also of what was given back
  int count_ = 0;                       // of machines, so that no id comes twice
};

}  // namespace

std::unique_ptr<Provider> MakeStaticProvider(
    std::vector<StaticHost> hosts, const TimeSource* time) {
  return std::make_unique<StaticProvider>(std::move(hosts), time);
}

}  // namespace ps::provisioner
