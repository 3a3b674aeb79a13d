#include "run/rented_machines.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "provisioner/fleet/machine_keys.h"
#include "provisioner/rental/machine_script.h"
#include "provisioner/rental/open_provider.h"
#include "provisioner/rental/rent_settings.h"
#include "provisioner/rental/rental_check.h"
#include "provisioner/rental/rental_outlook.h"
#include "ps/base/file.h"
#include "ps/base/time.h"
#include "run/directory/rental_name.h"

namespace ps::run {
namespace {

constexpr size_t kSetupBytesMax = size_t{64} << 10;
/// To drain, save and give back, which costs as well.
constexpr double kLastSeconds = 180;
constexpr Duration kGiveBackMax = std::chrono::minutes(3);
constexpr Duration kLook = std::chrono::milliseconds(100);

}  // namespace

Result<std::unique_ptr<RentedMachines>> RentedMachines::Open(
    const proto::JobConfig& config, const RunDirectory& directory) {
  const proto::LaunchConfig& launch = config.launch;
  if (!proto::IsRented(launch.launcher)) {
    return std::unique_ptr<RentedMachines>();
  }
  std::string setup;
  if (!launch.rent.setup.empty()) {
    Result<std::string> text = ReadFile(launch.rent.setup, kSetupBytesMax);
    if (!text.ok()) {
      return std::move(text).status().Annotate("launch.rent.setup");
    }
    setup = std::move(text).value();
  }
  const std::string folder = directory.paths().rentals();
  std::unique_ptr<RentedMachines> machines(
      new RentedMachines(config.budget, provisioner::OwnRateOf(config), folder + "/notes"));
  machines->keys_ = folder;
  provisioner::MachineBoot boot;
  boot.watch_min = launch.rent.watch_min;
  boot.setup = setup;
  boot.user = launch.rent.user;
  PS_ASSIGN(boot.keys, provisioner::MachineKeysIn(folder));
  PS_ASSIGN(std::string script, provisioner::MachineScript(boot));
  provisioner::RentalDesk::Options options;
  PS_ASSIGN(const std::string run, RentalRunName(directory.paths()));
  options.rental = provisioner::RentalOptionsOf(config, run, std::move(script));
  options.rent = launch.rent;
  PS_ASSIGN(
      const std::unique_ptr<provisioner::Provider> provider,
      provisioner::OpenProvider(launch, nullptr));
  PS_ASSIGN(const std::vector<provisioner::RentalNote> before, machines->notes_.Load());
  machines->since_us_ = SystemTime().UnixMicros();
  for (const provisioner::RentalNote& note : before) {
    if (note.started_us > 0) {
      machines->since_us_ = std::min(machines->since_us_, note.started_us);
    }
  }
  if (before.empty()) {  // a run that goes on has rented, and has no time to lose
    provisioner::RentRequest request;
    request.token = "check";
    request.pools = options.rental.pools;
    request.setup = options.rental.setup;
    request.tags = options.rental.tags;
    PS_ASSIGN(
        machines->warning_,
        provisioner::CheckRental(provider.get(), request, provisioner::DemandsOf(config)));
    const provisioner::PriceReply prices =
        provider->Prices(request.pools, SystemTime().UnixMicros());
    machines->outlook_ = provisioner::DescribeRent(config, prices.prices);
  }
  options.make_provider = [launch](IsCancelled is_cancelled) {
    return provisioner::OpenProvider(launch, std::move(is_cancelled));
  };
  PS_ASSIGN(machines->desk_, provisioner::RentalDesk::Open(std::move(options), &machines->notes_));
  return machines;
}

std::string RentedMachines::WhyEnd(Spent traffic) const {
  if (!(budget_.usd > 0)) {
    return "";
  }
  const provisioner::RentalDesk::Summary now = summary();
  const double usd_per_hour = now.usd_per_hour + own_usd_per_hour_ + traffic.usd_per_hour;
  const auto own_us = static_cast<double>(SystemTime().UnixMicros() - since_us_);
  const double usd = now.usd + own_usd_per_hour_ * own_us / 3600e6 + traffic.usd;
  const double by_end = usd + usd_per_hour * kLastSeconds / 3600;
  return by_end < double{budget_.usd}
             ? ""
             : fmt::format(
                   "its machines{} have cost ${:.2f} at ${:.2f} an hour, and budget.usd is "
                   "${:.2f}",
                   traffic.usd > 0 ? " and their traffic" : "",
                   usd,
                   usd_per_hour,
                   budget_.usd);
}

std::map<WorkerId, double> RentedMachines::worker_usd_per_hour() const {
  std::map<WorkerId, double> rates;
  for (const auto& [seat, usd] : desk_->seat_usd_per_hour()) {
    rates[WorkerId(seat.index)] = usd;
  }
  return rates;
}

std::vector<proto::MarketPrice> RentedMachines::prices() const {
  std::vector<proto::MarketPrice> prices;
  for (const provisioner::PoolPrice& price : desk_->prices()) {
    const provisioner::Pool& pool = price.pool;
    prices.push_back({pool.type, pool.zone, pool.is_spot, price.usd_per_hour});
  }
  return prices;
}

bool RentedMachines::GiveBack(TimePoint now) {
  if (!ending_since_) {
    ending_since_ = now;
    desk_->End();
  }
  return desk_->is_over() || now - *ending_since_ > kGiveBackMax;
}

void RentedMachines::GiveBackNow() {
  while (!GiveBack(SystemTime().Now())) {
    desk_->TakeEvents();
    desk_->AwaitAnswer(kLook);
  }
}

Result<size_t> ReleaseMachinesOf(const RunPaths& run) {
  std::error_code error;
  // The notes of a run with a head are of that machine.
  if (!std::filesystem::is_directory(run.rentals() + "/notes", error) ||
      std::filesystem::exists(run.head(), error)) {
    return size_t{0};
  }
  PS_ASSIGN(
      const proto::JobConfig config,
      proto::LoadJobConfig(run.config(), {}, proto::DataPlace::kElsewhere));
  if (!proto::IsRented(config.launch.launcher)) {
    return size_t{0};
  }
  PS_ASSIGN(const std::string name, RentalRunName(run));
  PS_ASSIGN(
      const std::unique_ptr<provisioner::Provider> provider,
      provisioner::OpenProvider(config.launch, nullptr));
  const provisioner::ListReply list = provider->List({{std::string(provisioner::kRunTag), name}});
  if (!list.end.ok()) {
    return Status::Unavailable(list.end.message);
  }
  std::vector<std::string> ids;
  const std::string owner = provisioner::OwnerName();
  for (const provisioner::Machine& machine : list.machines) {
    const auto tag = machine.tags.find(std::string(provisioner::kOwnerTag));
    // A copy of the run's folder may have gone on elsewhere, with its name.
    const bool is_ours = tag != machine.tags.end() && tag->second == owner;
    if (is_ours && machine.state != provisioner::MachineState::kGone) {
      ids.push_back(machine.id);
    }
  }
  const provisioner::CallEnd end = ids.empty() ? provisioner::CallEnd() : provider->Release(ids);
  return end.ok() ? Result<size_t>(ids.size()) : Status::Unavailable(end.message);
}

}  // namespace ps::run
