#include "provisioner/provider/gce.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "provisioner/provider/gce_check.h"
#include "provisioner/provider/gce_forms.h"
#include "provisioner/provider/gce_replies.h"
#include "provisioner/provider/request_check.h"
#include "ps/base/text.h"
#include "ps/http/url.h"

namespace ps::provisioner {
namespace {

constexpr size_t kGcePagesMax = 1000;
/// Each wait is up to two minutes.
constexpr int kWaitsMax = 3;
constexpr size_t kUserDataBytesMax = 256 << 10;  // of a value of the metadata

bool EndsTheRequest(CallFault fault) {
  return fault != CallFault::kNoStock && fault != CallFault::kQuota && fault != CallFault::kRefused;
}

class GceProvider final : public Provider {
 public:
  explicit GceProvider(GceOptions options) : client_(std::move(options)) {}

  std::string_view name() const override { return "gce"; }

  RentReply Rent(const RentRequest& request) override {
    RentReply rent;
    rent.end = CheckAll(request);
    if (!rent.end.ok() || FindBefore(request, &rent)) {
      return rent;
    }
    for (const Pool& pool : request.pools) {
      std::optional<Machine> machine;
      CallEnd end = RentFrom(request, pool, &machine);
      if (end.ok() || EndsTheRequest(end.fault)) {
        rent.end = std::move(end);
        rent.machine = std::move(machine);
        return rent;
      }
      rent.pool_faults.push_back({.pool = pool, .end = std::move(end)});
    }
    // Stock comes back; a quota and a type that is none do not.
    const auto stock =
        std::find_if(rent.pool_faults.begin(), rent.pool_faults.end(), [](const PoolFault& fault) {
          return fault.end.fault == CallFault::kNoStock;
        });
    rent.end = (stock == rent.pool_faults.end() ? rent.pool_faults.begin() : stock)->end;
    return rent;
  }

  ListReply List(const std::map<std::string, std::string>& tags) override {
    std::string filter;
    for (const auto& [name, value] : tags) {
      filter += fmt::format("{}(labels.{}=\"{}\")", filter.empty() ? "" : " AND ", name, value);
    }
    ListReply list;
    std::vector<GceMachine> found;
    list.end = FindInstances(filter, &found);
    if (!list.end.ok()) {
      return list;
    }
    bool is_any_ending = false;
    for (GceMachine& entry : found) {
      is_any_ending |= entry.machine.pool.is_spot && entry.machine.state == MachineState::kEnding;
      list.machines.push_back(std::move(entry.machine));
    }
    if (is_any_ending) {
      MarkRevoked(&list.machines);
    }
    return list;
  }

  CallEnd Release(const std::vector<std::string>& ids) override {
    CallEnd end;
    for (const std::string& id : ids) {
      const size_t slash = id.find('/');
      if (slash == std::string::npos) {
        if (CallEnd known = KnowsUs(); !known.ok() && end.ok()) {
          end = std::move(known);
        }
        continue;  // no machine of this service
      }
      CallEnd ended = Delete(id.substr(0, slash), id.substr(slash + 1));
      if (end.ok()) {
        end = std::move(ended);
      }
    }
    return end;
  }

  PriceReply Prices(const std::vector<Pool>& /*pools*/, int64_t /*since_us*/) override {
    return {};
  }

  /// Disks go with their machines, and nothing else is made.
  CallEnd Tidy(const std::map<std::string, std::string>& /*tags*/) override { return {}; }

  std::vector<CheckLine> Check(const RentRequest& request) override {
    std::vector<CheckLine> lines = CheckGce(request, &client_);
    if (CallEnd end = CheckAll(request); !end.ok() && lines.front().end.ok()) {
      lines.push_back({.what = "request", .end = std::move(end), .finding = {}});
    }
    return lines;
  }

 private:
  CallEnd CheckAll(const RentRequest& request) const {
    CallEnd end = CheckRequest(request);
    if (end.ok() && request.setup.image.empty()) {
      return Refused(
          "cannot rent: Compute Engine has no default image; name one "
          "(projects/P/global/images/family/F)");
    }
    if (end.ok() && !request.setup.key_name.empty() &&
        request.setup.key_name.find(':') == std::string::npos) {
      return Refused(
          "cannot rent: Compute Engine has no named keys; write USER:ssh-ed25519 AAAA...");
    }
    if (end.ok() && request.setup.user_data.size() > kUserDataBytesMax) {
      return Refused(fmt::format(
          "cannot rent: the user data has {} bytes, Compute Engine takes {}",
          request.setup.user_data.size(),
          kUserDataBytesMax));
    }
    return end;
  }

  /// Whether this token has a machine, or it can't be told: pools are asked one by one, and where
  /// stock has come back the answer would be another one than before.
  bool FindBefore(const RentRequest& request, RentReply* rent) {
    std::vector<GceMachine> found;
    rent->end = FindInstances(fmt::format("name=\"{}\"", request.token), &found);
    if (rent->end.ok() && !found.empty()) {
      rent->end = Take(request, std::move(found.front()), &rent->machine);
      return true;
    }
    return !rent->end.ok();
  }

  /// kMismatch unless it was made for this request.
  CallEnd Take(const RentRequest& request, GceMachine found, std::optional<Machine>* machine) {
    if (found.digest != RequestDigest(request)) {
      return {
          .fault = CallFault::kMismatch,
          .message = fmt::format("{} was made for another request", found.machine.id)};
    }
    *machine = std::move(found.machine);
    return {};
  }

  CallEnd RentFrom(const RentRequest& request, const Pool& pool, std::optional<Machine>* machine) {
    if (!ParseGceType(pool.type)) {
      return Refused(pool.type + " is no type of Compute Engine");
    }
    const std::string zone = "zones/" + PercentEncoded(pool.zone);
    const GceReply reply = client_.Do(
        {.method = "POST",
         .path = zone + "/instances",
         .query = "requestId=" + GceRequestId(request, pool),
         .body = GceInstance(request, pool, client_.project()),
         .permission = "compute.instances.create"});
    const bool is_there = reply.error.http_status == 409;
    if (!reply.end.ok() && !is_there) {
      return reply.end;
    }
    if (!is_there) {
      if (CallEnd end = AwaitOperation(zone, reply.json); !end.ok()) {
        return end;
      }
    }
    return Look(request, pool, machine);
  }

  /// The operation tells whether the machine came to be; the instance itself is there before that,
  /// and may vanish.
  CallEnd AwaitOperation(const std::string& zone, JsonValue operation) {
    for (int i = 0; i < kWaitsMax && GceText(operation, "status") != "DONE"; ++i) {
      const std::string name = GceText(operation, "name");
      const GceReply reply = client_.Do(
          {.method = "POST",
           .path = fmt::format("{}/operations/{}/wait", zone, PercentEncoded(name)),
           .permission = "compute.zoneOperations.get"});
      if (!reply.end.ok()) {
        CallEnd end = reply.end;
        // The machine may come to be meanwhile, whatever is wrong with asking.
        end.fault = CallFault::kUnclear;
        return end;
      }
      operation = reply.json;
    }
    if (GceText(operation, "status") != "DONE") {
      return {
          .fault = CallFault::kUnclear,
          .message = fmt::format(
              "gce: the operation {} has not ended after minutes",
              Printable(Clip(GceText(operation, "name"), 80)))};
    }
    if (operation.Find("error") == nullptr) {
      return {};
    }
    const GceError error = ReadGceError(operation, 0);
    CallEnd end;
    end.fault = GceFaultOf(error);
    // It is over: what it did not make it never will.
    if (end.fault == CallFault::kUnclear || end.fault == CallFault::kThrottled) {
      end.fault = CallFault::kNoStock;
    }
    end.message = "gce: the machine was not made: " + GceErrorText(error);
    if (end.fault == CallFault::kDenied) {
      end.message += "; it needs " + GcePermission(error, "compute.instances.create");
    }
    return end;
  }

  /// What was made; one that is not to be seen yet is believed to be there.
  CallEnd Look(const RentRequest& request, const Pool& pool, std::optional<Machine>* machine) {
    const GceReply reply = client_.Do(
        {.path = fmt::format("zones/{}/instances/{}", PercentEncoded(pool.zone), request.token),
         .permission = "compute.instances.get"});
    if (reply.end.ok()) {
      auto found = ReadGceInstance(reply.json);
      if (!found.ok()) {
        return {
            .fault = CallFault::kUnclear,
            .message = "gce: " + std::string(found.status().message())};
      }
      return Take(request, std::move(found).value(), machine);
    }
    if (reply.error.http_status != 404) {
      CallEnd end = reply.end;
      end.fault = CallFault::kUnclear;
      return end;
    }
    Machine made;
    made.id = pool.zone + "/" + request.token;
    made.token = request.token;
    made.pool = pool;
    made.tags = request.tags;
    *machine = std::move(made);
    return {};
  }

  CallEnd FindInstances(const std::string& filter, std::vector<GceMachine>* found) {
    std::string next;
    for (size_t page = 0; page < kGcePagesMax; ++page) {
      std::string query = "maxResults=100";
      query += filter.empty() ? "" : "&filter=" + PercentEncoded(filter);
      query += next.empty() ? "" : "&pageToken=" + PercentEncoded(next);
      const GceReply reply = client_.Do(
          {.path = "aggregated/instances", .query = query, .permission = "compute.instances.list"});
      if (!reply.end.ok()) {
        return reply.end;
      }
      auto machines = ReadGceInstances(reply.json);
      if (!machines.ok()) {
        return {
            .fault = CallFault::kUnclear,
            .message = "gce: the list of instances is not whole: " +
                       std::string(machines.status().message())};
      }
      for (GceMachine& machine : *machines) {
        found->push_back(std::move(machine));
      }
      next = GceText(reply.json, "nextPageToken");
      if (next.empty()) {
        return {};
      }
    }
    return {
        .fault = CallFault::kUnclear,
        .message = fmt::format("gce: more than {} pages of instances", kGcePagesMax)};
  }

  /// An instance does not say why it ends; the operation that ends it does.
  void MarkRevoked(std::vector<Machine>* machines) {
    const GceReply reply = client_.Do(
        {.path = "aggregated/operations",
         .query = "maxResults=500&orderBy=" + PercentEncoded("creationTimestamp desc") +
                  "&filter=" + PercentEncoded("operationType=\"compute.instances.preempted\""),
         .permission = "compute.zoneOperations.list"});
    const std::vector<std::string> ids =
        reply.end.ok() ? ReadGcePreemptions(reply.json) : std::vector<std::string>();
    for (Machine& machine : *machines) {
      if (std::find(ids.begin(), ids.end(), machine.id) != ids.end()) {
        machine.is_revoked = true;
        machine.why = machine.why.empty() ? "preempted" : machine.why;
      }
    }
  }

  CallEnd Delete(const std::string& zone, const std::string& machine) {
    const GceReply reply = client_.Do(
        {.method = "DELETE",
         .path =
             fmt::format("zones/{}/instances/{}", PercentEncoded(zone), PercentEncoded(machine)),
         .permission = "compute.instances.delete"});
    return reply.error.http_status == 404 ? CallEnd{} : reply.end;
  }

  /// Who is not known to the service can't tell that it has no such machine.
  CallEnd KnowsUs() { return client_.Do({.permission = "compute.projects.get"}).end; }

  GceClient client_;
};

}  // namespace

std::unique_ptr<Provider> MakeGceProvider(GceOptions options) {
  return std::make_unique<GceProvider>(std::move(options));
}

Result<std::unique_ptr<Provider>> OpenGceProvider(
    const Environment& environment,
    const std::string& project,
    const std::string& endpoint,
    IsCancelled is_cancelled) {
  const std::shared_ptr<HttpClient> services = MakeHttpClient(
      {.connect = std::chrono::seconds(5), .total = std::chrono::seconds(20)}, nullptr);
  auto token = FindGoogleToken(environment, services.get(), SystemTime());
  if (!token.ok()) {
    return std::move(token).status();
  }
  GceOptions options;
  options.project =
      project.empty() ? environment("GOOGLE_CLOUD_PROJECT").value_or(token->project) : project;
  if (options.project.empty()) {
    return Status::InvalidArgument(
        fmt::format("{} names no project; name one, or set GOOGLE_CLOUD_PROJECT", token->source));
  }
  options.endpoint = endpoint;
  options.find_token = [environment, services] {
    return FindGoogleToken(environment, services.get(), SystemTime());
  };
  // An operation is waited for up to two minutes.
  options.http = MakeHttpClient(
      {.connect = std::chrono::seconds(10),
       .total = std::chrono::seconds(150),
       .bytes_per_s_min = 0},
      std::move(is_cancelled));
  return MakeGceProvider(std::move(options));
}

}  // namespace ps::provisioner
