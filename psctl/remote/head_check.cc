#include "psctl/remote/head_check.h"

#include <fmt/core.h>

#include <string>
#include <vector>

#include "provisioner/rental/rent_settings.h"
#include "provisioner/rental/rental_check.h"
#include "provisioner/rental/rental_outlook.h"
#include "ps/base/text.h"
#include "ps/base/time.h"
#include "psctl/remote/head_job.h"

namespace ps::psctl {

Status CheckHeadJob(const proto::JobConfig& config) {
  if (!proto::IsRented(config.launch.launcher)) {
    return Status::InvalidArgument(
        "--remote rents a machine for coordinator and servers, and the job rents none; set "
        "launch.launcher to ec2 or gce");
  }
  const proto::RentHeadConfig& head = config.launch.rent.head;
  if (head.type.empty()) {
    return Status::InvalidArgument(
        "--remote needs the type of the machine for coordinator and servers; set "
        "launch.rent.head.type, for example to c7i.xlarge");
  }
  if (head.role.empty()) {
    return Status::InvalidArgument(
        "--remote needs what psctl acts as on that machine to rent the workers, since your own "
        "keys stay here; set launch.rent.head.role to an instance profile or a service account "
        "with the permissions of configs/cloud");
  }
  const std::string& copies = config.checkpoint.copy_to;
  if (!copies.empty() && !IsInBucket(copies)) {
    return Status::InvalidArgument(
        "checkpoint.copy_to is a folder, and that of the head machine would go with it; name a "
        "bucket (s3://...), or leave it out");
  }
  if (config.servers.launcher != proto::LauncherKind::kLocal) {
    return Status::InvalidArgument(
        "--remote puts the servers on the head machine; leave servers.launcher out");
  }
  return Status::Ok();
}

double HeadRate(provisioner::Provider* provider, const provisioner::HeadMachine::Options& head) {
  const provisioner::PriceReply prices =
      provider->Prices(head.request.pools, SystemTime().UnixMicros());
  return provisioner::WorstRate({{head.request.pools, 1}}, prices.prices, head.usd_per_hour);
}

Result<double> LookAtProvider(
    const proto::JobConfig& config,
    provisioner::Provider* provider,
    const provisioner::HeadMachine::Options& head,
    const run::Console& console) {
  const provisioner::RentalOptions workers =
      provisioner::RentalOptionsOf(config, "check", head.request.setup.user_data);
  provisioner::RentRequest request = head.request;
  request.token = "check";
  PS_ASSIGN(
      std::string warning, provisioner::CheckRental(provider, request, {{head.request.pools, 1}}));
  request.pools = workers.pools;
  request.setup = workers.setup;
  PS_ASSIGN(
      const std::string of_workers,
      provisioner::CheckRental(provider, request, provisioner::DemandsOf(config)));
  if (of_workers != warning) {
    warning += (warning.empty() || of_workers.empty() ? "" : "; ") + of_workers;
  }
  if (!warning.empty()) {
    console.err(fmt::format("psctl: {}\n", warning));
  }
  const double usd = HeadRate(provider, head);
  const auto cap = double{config.budget.usd_per_hour};
  if (!(usd > 0) && (cap > 0 || config.budget.usd > 0)) {
    return Status::InvalidArgument(fmt::format(
        "the provider tells no price of a head {}, and budget is for it, too; try again, or say "
        "what it costs by launch.rent.head.usd_per_hour",
        config.launch.rent.head.type));
  }
  if (cap > 0 && usd >= cap) {
    return Status::InvalidArgument(fmt::format(
        "the head costs ${} an hour, and budget.usd_per_hour, ${}, is for head and workers",
        FormatUsd(usd),
        FormatUsd(cap)));
  }
  const provisioner::PriceReply prices = provider->Prices(workers.pools, SystemTime().UnixMicros());
  console.err(fmt::format(
      "{:<12}{} for coordinator and servers, {}\n",
      "head",
      config.launch.rent.head.type,
      usd > 0 ? fmt::format("${} an hour until it is given back", FormatUsd(usd))
              : "whose price is not known (launch.rent.head.usd_per_hour says it)"));
  proto::JobConfig there = config;
  there.launch.rent.head = {};
  there.launch.rent.head.usd_per_hour = static_cast<float>(usd);
  for (const auto& [name, text] : provisioner::DescribeRent(there, prices.prices)) {
    console.err(fmt::format("{:<12}{}\n", name, text));
  }
  return usd;
}

}  // namespace ps::psctl
