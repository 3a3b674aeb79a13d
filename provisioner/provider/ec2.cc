#include "provisioner/provider/ec2.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <utility>

#include "provisioner/provider/ec2_check.h"
#include "provisioner/provider/ec2_forms.h"
#include "provisioner/provider/ec2_replies.h"
#include "provisioner/provider/request_check.h"
#include "ps/base/text.h"
#include "ps/http/date.h"
#include "ps/json/json_writer.h"

namespace ps::provisioner {
namespace {

constexpr size_t kPagesMax = 1000;  // of a hundred entries; who names the next page for ever is ill
constexpr size_t kBatchMax = 100;   // machines of one TerminateInstances
constexpr Duration kTemplateWait = std::chrono::seconds(2);

bool IsTemplateLost(std::string_view code) {
  return code.starts_with("InvalidLaunchTemplate") && code.find("NotFound") != code.npos;
}

bool IsInstanceId(std::string_view id) {
  return id.size() > 2 && id.size() <= 19 && id.starts_with("i-") &&
         id.find_first_not_of("0123456789abcdef", 2) == id.npos;
}

/// Linux alone, on hosts that are shared, without licences or reservations.
std::string PriceListBody(const std::string& type, const std::string& region) {
  JsonWriter json(JsonForm::kOneLine);
  json.BeginObject();
  json.Field("ServiceCode", "AmazonEC2");
  json.BeginList("Filters");
  const std::pair<const char*, std::string> filters[] = {
      {"instanceType", type},
      {"regionCode", region},
      {"operatingSystem", "Linux"},
      {"tenancy", "Shared"},
      {"preInstalledSw", "NA"},
      {"capacitystatus", "Used"}};
  for (const auto& [field, value] : filters) {
    json.BeginObject();
    json.Field("Type", "TERM_MATCH");
    json.Field("Field", field);
    json.Field("Value", value);
    json.EndObject();
  }
  json.EndList();
  json.Field("FormatVersion", "aws_v1");
  json.EndObject();
  return std::move(json).Take();
}

class Ec2Provider final : public Provider {
 public:
  explicit Ec2Provider(Ec2Options options) : client_(std::move(options)) {}

  std::string_view name() const override { return "ec2"; }

  RentReply Rent(const RentRequest& request) override {
    RentReply rent;
    Ec2Facts facts;
    rent.end = CheckAll(request);
    if (rent.end.ok()) {
      rent.end = FindFacts(request.setup, &facts);
    }
    if (rent.end.ok()) {
      rent.end = CheckZones(request, facts);
    }
    if (rent.end.ok()) {
      rent.end = MakeTemplate(request, facts);
    }
    if (!rent.end.ok()) {
      return rent;
    }
    rent = RentOnce(request, facts);
    if (rent.end.fault == CallFault::kRefused && rent.pool_faults.empty() &&
        !templates_.contains(Ec2TemplateName(request.setup))) {
      // Another run has tidied it away.
      rent.end = MakeTemplate(request, facts);
      rent = rent.end.ok() ? RentOnce(request, facts) : rent;
      if (!templates_.contains(Ec2TemplateName(request.setup))) {
        rent.end.fault = CallFault::kThrottled;  // it was made, and is not seen everywhere yet
        rent.end.wait = kTemplateWait;
      }
    }
    return rent;
  }

  ListReply List(const std::map<std::string, std::string>& tags) override {
    AwsForm form;
    AddTagFilters(tags, &form);
    ListReply list;
    list.end = ForEachPage("DescribeInstances", form, [&](const aws::XmlElement& page) -> Status {
      PS_ASSIGN(std::vector<Machine> machines, ReadInstances(page));
      for (Machine& machine : machines) {
        list.machines.push_back(std::move(machine));
      }
      return Status::Ok();
    });
    if (!list.end.ok()) {
      list.machines.clear();
    }
    return list;
  }

  CallEnd Release(const std::vector<std::string>& ids) override {
    CallEnd end;
    std::vector<std::string> batch;
    for (size_t i = 0; i < ids.size(); ++i) {
      // What is no id of EC2 is no machine of it.
      if (IsInstanceId(ids[i])) {
        batch.push_back(ids[i]);
      }
      const bool is_full = batch.size() == kBatchMax || i + 1 == ids.size();
      if (is_full && !batch.empty()) {
        CallEnd ended = Terminate(batch);
        batch.clear();
        if (end.ok()) {
          end = std::move(ended);
        }
      }
    }
    return end;
  }

  PriceReply Prices(const std::vector<Pool>& pools, int64_t since_us) override {
    PriceReply reply = SpotPrices(pools, since_us);
    for (const Pool& pool : pools) {
      if (!pool.is_spot && reply.end.ok()) {
        reply.end = AddStablePrice(pool, &reply.prices);
      }
    }
    std::sort(reply.prices.begin(), reply.prices.end(), [](const PoolPrice& a, const PoolPrice& b) {
      return std::tie(a.pool, a.since_us, a.usd_per_hour) <
             std::tie(b.pool, b.since_us, b.usd_per_hour);
    });
    return reply;
  }

  CallEnd Tidy(const std::map<std::string, std::string>& tags) override {
    AwsForm form;
    AddTagFilters(tags, &form);
    std::vector<std::string> names;
    CallEnd end =
        ForEachPage("DescribeLaunchTemplates", form, [&](const aws::XmlElement& page) -> Status {
          for (const aws::XmlElement& item : page.ChildrenAt("launchTemplates")) {
            names.emplace_back(item.TextAt("launchTemplateName"));
          }
          return Status::Ok();
        });
    for (const std::string& name : names) {
      if (!name.starts_with("spotps-")) {
        continue;
      }
      AwsForm deletion;
      deletion.Add("LaunchTemplateName", name);
      const AwsReply reply = client_.Ec2("DeleteLaunchTemplate", deletion, AwsEffect::kChanges);
      templates_.erase(name);
      if (end.ok() && !reply.error.code.starts_with("InvalidLaunchTemplateName.NotFound")) {
        end = reply.end;
      }
    }
    return end;
  }

  std::vector<CheckLine> Check(const RentRequest& request) override {
    CheckLine line = {.what = "request", .end = CheckAll(request), .finding = {}};
    Ec2Facts facts;
    if (line.end.ok()) {
      line.what = "image and subnets";
      line.end = FindFacts(request.setup, &facts);
    }
    if (line.end.ok()) {
      line.end = CheckZones(request, facts);
    }
    // Whose keys are wrong reads of that alone.
    const bool is_known = line.end.ok() || line.end.fault == CallFault::kRefused;
    if (!is_known) {
      line.what = "credentials";
      return {line};
    }
    std::vector<CheckLine> lines;
    if (!line.end.ok()) {
      lines.push_back(std::move(line));
    }
    if (!request.pools.empty()) {
      std::vector<CheckLine> more = CheckEc2(request, facts, &client_);
      lines.insert(lines.begin(), more.begin(), more.end());
    }
    return lines;
  }

 private:
  CallEnd CheckAll(const RentRequest& request) const {
    CallEnd end = CheckRequest(request);
    if (end.ok() && request.setup.image.empty()) {
      end = Refused("cannot rent: EC2 has no default image; name one (ami-...)");
    }
    if (end.ok() && request.setup.user_data.size() > kEc2UserDataBytesMax) {
      end = Refused(fmt::format(
          "cannot rent: the user data has {} bytes, EC2 takes {}",
          request.setup.user_data.size(),
          kEc2UserDataBytesMax));
    }
    return end;
  }

  PriceReply SpotPrices(const std::vector<Pool>& pools, int64_t since_us) {
    std::set<std::string> types;
    std::set<std::string> zones;
    bool is_anywhere = false;
    for (const Pool& pool : pools) {
      if (pool.is_spot) {
        types.insert(pool.type);
        zones.insert(pool.zone);
        is_anywhere |= pool.zone.empty();
      }
    }
    PriceReply reply;
    if (types.empty()) {
      return reply;
    }
    AwsForm form;
    int number = 0;
    for (const std::string& type : types) {
      form.Add(fmt::format("InstanceType.{}", ++number), type);
    }
    form.Add("ProductDescription.1", "Linux/UNIX");
    form.Add("StartTime", Rfc3339Text(std::max<int64_t>(since_us / 1'000'000, 0)));
    if (!is_anywhere) {
      form.AddFilter("availability-zone", {zones.begin(), zones.end()});
    }
    reply.end =
        ForEachPage("DescribeSpotPriceHistory", form, [&](const aws::XmlElement& page) -> Status {
          PS_ASSIGN(const std::vector<PoolPrice> prices, ReadPrices(page));
          for (const PoolPrice& price : prices) {
            const bool is_asked = std::any_of(pools.begin(), pools.end(), [&](const Pool& pool) {
              return pool.is_spot && pool.type == price.pool.type &&
                     (pool.zone.empty() || pool.zone == price.pool.zone);
            });
            if (is_asked) {
              reply.prices.push_back(price);
            }
          }
          return Status::Ok();
        });
    return reply;
  }

  /// The list's prices change some times a year, so each is asked once.
  CallEnd AddStablePrice(const Pool& pool, std::vector<PoolPrice>* prices) {
    if (!stable_prices_.contains(pool.type)) {
      const AwsReply reply = client_.Json(
          "pricing", "AWSPriceListService.GetProducts", PriceListBody(pool.type, client_.region()));
      if (!reply.end.ok()) {
        return reply.end;
      }
      const auto price = ReadStablePrice(reply.json);
      if (!price.ok()) {
        return {
            .fault = CallFault::kUnclear,
            .message = "pricing:GetProducts: " + std::string(price.status().message())};
      }
      stable_prices_[pool.type] = *price;
    }
    if (const std::optional<StablePrice>& price = stable_prices_[pool.type]) {
      prices->push_back(
          {.pool = pool, .usd_per_hour = price->usd_per_hour, .since_us = price->since_us});
    }
    return {};
  }

  /// The zones of subnets, and where an image has its disk: asked once.
  CallEnd FindFacts(const MachineSetup& setup, Ec2Facts* facts) {
    CallEnd end;
    const std::vector<std::string> subnets = PartsOf(setup.subnet);
    if (!subnets.empty() && !zones_.contains(setup.subnet)) {
      end = FindZones(setup.subnet, subnets);
    }
    if (end.ok() && setup.disk_gib > 0 && !root_devices_.contains(setup.image)) {
      end = FindRootDevice(setup.image);
    }
    if (end.ok() && !subnets.empty()) {
      facts->subnet_of_zone = zones_[setup.subnet];
    }
    if (end.ok() && setup.disk_gib > 0) {
      facts->root_device = root_devices_[setup.image];
    }
    return end;
  }

  CallEnd FindZones(const std::string& key, const std::vector<std::string>& subnets) {
    AwsForm form;
    for (size_t i = 0; i < subnets.size(); ++i) {
      form.Add(fmt::format("SubnetId.{}", i + 1), subnets[i]);
    }
    const AwsReply reply = client_.Ec2("DescribeSubnets", form, AwsEffect::kReads);
    if (!reply.end.ok()) {
      return reply.end;
    }
    std::map<std::string, std::string> found;
    for (const aws::XmlElement& item : reply.xml.ChildrenAt("subnetSet")) {
      found.emplace(item.TextAt("availabilityZone"), item.TextAt("subnetId"));
    }
    if (found.size() != subnets.size()) {
      return Refused(fmt::format(
          "cannot rent: the subnets {} are in {} zones; name one of each zone", key, found.size()));
    }
    zones_[key] = std::move(found);
    return {};
  }

  CallEnd FindRootDevice(const std::string& image) {
    AwsForm form;
    form.Add("ImageId.1", image);
    const AwsReply reply = client_.Ec2("DescribeImages", form, AwsEffect::kReads);
    if (!reply.end.ok()) {
      return reply.end;
    }
    const std::vector<aws::XmlElement>& images = reply.xml.ChildrenAt("imagesSet");
    const std::string device(
        images.empty() ? std::string_view() : images.front().TextAt("rootDeviceName"));
    if (device.empty()) {
      return Refused(fmt::format(
          "cannot rent: the image {} is not in {}, or its first disk has no name",
          Printable(image),
          client_.region()));
    }
    root_devices_[image] = device;
    return {};
  }

  static CallEnd CheckZones(const RentRequest& request, const Ec2Facts& facts) {
    for (const Pool& pool : request.pools) {
      if (!facts.subnet_of_zone.empty() && !facts.subnet_of_zone.contains(pool.zone)) {
        return Refused(fmt::format(
            "cannot rent: no subnet of {} is in zone {}; name one there",
            request.setup.subnet,
            pool.zone));
      }
    }
    return {};
  }

  CallEnd MakeTemplate(const RentRequest& request, const Ec2Facts& facts) {
    const std::string name = Ec2TemplateName(request.setup);
    if (templates_.contains(name)) {
      return {};
    }
    const AwsReply reply =
        client_.Ec2("CreateLaunchTemplate", Ec2TemplateForm(request, facts), AwsEffect::kChanges);
    const bool is_there =
        reply.end.ok() || reply.error.code.starts_with("InvalidLaunchTemplateName.AlreadyExists");
    if (is_there) {
      templates_.insert(name);
      return {};
    }
    return reply.end;
  }

  RentReply RentOnce(const RentRequest& request, const Ec2Facts& facts) {
    const AwsReply reply =
        client_.Ec2("CreateFleet", Ec2FleetForm(request, facts), AwsEffect::kChanges);
    RentReply rent;
    if (reply.end.ok()) {
      rent = ReadFleet(reply.xml, request, facts);
      for (const aws::XmlElement& item : reply.xml.ChildrenAt("errorSet")) {
        if (IsTemplateLost(item.TextAt("errorCode"))) {
          templates_.erase(Ec2TemplateName(request.setup));
        }
      }
    } else {
      rent.end = reply.end;
      rent.pool_faults = FaultOfAll(request, reply.end);
      if (IsTemplateLost(reply.error.code)) {
        templates_.erase(Ec2TemplateName(request.setup));
      }
      if (const std::string blob = EncodedAuthorization(reply.error); !blob.empty()) {
        rent.end.message += DecodedAuthorization(blob);
      }
    }
    return rent;
  }

  /// "; it needs ec2:RunInstances on arn:...", if the key may ask; else how to.
  std::string DecodedAuthorization(const std::string& blob) {
    AwsForm form;
    form.Add("EncodedMessage", blob);
    const AwsReply reply = client_.Sts("DecodeAuthorizationMessage", form);
    const std::string text(reply.xml.TextAt("DecodeAuthorizationMessageResult/DecodedMessage"));
    const auto json = ParseJson(text, "the message");
    const JsonValue* const action =
        reply.end.ok() && json.ok() ? json->At("context.action") : nullptr;
    if (action == nullptr || action->kind != JsonValue::Kind::kText) {
      return "; which permission it is can be told with sts:DecodeAuthorizationMessage";
    }
    return "; it needs " + Printable(Clip(action->text, 100));
  }

  /// One that is not known spares all of its batch: so halves are asked.
  CallEnd Terminate(std::span<const std::string> ids) {
    AwsForm form;
    for (size_t i = 0; i < ids.size(); ++i) {
      form.Add(fmt::format("InstanceId.{}", i + 1), ids[i]);
    }
    const AwsReply reply = client_.Ec2("TerminateInstances", form, AwsEffect::kChanges);
    const bool is_unknown = reply.error.code.starts_with("InvalidInstanceID");
    if (!is_unknown) {
      return reply.end;
    }
    if (ids.size() == 1) {
      return {};
    }
    CallEnd first = Terminate(ids.first(ids.size() / 2));
    CallEnd second = Terminate(ids.subspan(ids.size() / 2));
    return first.ok() ? second : first;
  }

  template <typename Read>
  CallEnd ForEachPage(const std::string& action, const AwsForm& base, const Read& read) {
    std::string next;
    for (size_t page = 0; page < kPagesMax; ++page) {
      AwsForm form = base;
      form.Add("MaxResults", "100");
      if (!next.empty()) {
        form.Add("NextToken", next);
      }
      const AwsReply reply = client_.Ec2(action, form, AwsEffect::kReads);
      if (!reply.end.ok()) {
        return reply.end;
      }
      if (const Status status = read(reply.xml); !status.ok()) {
        return {
            .fault = CallFault::kUnclear,
            .message = fmt::format(
                "ec2:{}: the answer is not understood: {}", action, std::string(status.message()))};
      }
      next = reply.xml.TextAt("nextToken");
      if (next.empty()) {
        return {};
      }
    }
    return {
        .fault = CallFault::kUnclear,
        .message = fmt::format("ec2:{}: more than {} pages", action, kPagesMax)};
  }

  AwsClient client_;
  std::set<std::string> templates_;  // that are there, as far as is known
  std::map<std::string, std::map<std::string, std::string>> zones_;  // by what the setup says
  std::map<std::string, std::string> root_devices_;                  // by image
  std::map<std::string, std::optional<StablePrice>> stable_prices_;  // by type
};

}  // namespace

std::unique_ptr<Provider> MakeEc2Provider(Ec2Options options) {
  return std::make_unique<Ec2Provider>(std::move(options));
}

Result<std::unique_ptr<Provider>> OpenEc2Provider(
    const Environment& environment,
    const std::string& region,
    const std::string& endpoint,
    IsCancelled is_cancelled) {
  // Those who give keys are near; EC2 itself takes up to half a minute for a fleet.
  const std::shared_ptr<HttpClient> services = MakeHttpClient(
      {.connect = std::chrono::seconds(1), .total = std::chrono::seconds(5)}, nullptr);
  aws::Service service = {.name = "ec2", .region = region, .endpoint = endpoint};
  const auto found =
      aws::FindCredentials(environment, services.get(), "renting from EC2", &service);
  if (!found.ok()) {
    return found.status();
  }
  Ec2Options options;
  options.region = service.region;
  options.endpoint = service.endpoint;
  options.find_credentials = [environment, services, service]() mutable {
    return aws::FindCredentials(environment, services.get(), "renting from EC2", &service);
  };
  options.http = MakeHttpClient(
      {.connect = std::chrono::seconds(10), .total = std::chrono::minutes(1), .bytes_per_s_min = 0},
      std::move(is_cancelled));
  return MakeEc2Provider(std::move(options));
}

}  // namespace ps::provisioner
