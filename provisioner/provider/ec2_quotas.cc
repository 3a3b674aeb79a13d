#include "provisioner/provider/ec2_quotas.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "provisioner/provider/ec2_replies.h"
#include "ps/json/json_writer.h"

namespace ps::provisioner {
namespace {

/// How EC2 counts vCPUs: a quota for the types of a row together, spot and on demand apart.
struct QuotaFamily {
  std::string_view letters;  // what the family's names begin with; in front of the first digit
  std::string_view name;
  std::string_view spot_code;
  std::string_view stable_code;
};

constexpr QuotaFamily kFamilies[] = {
    {"a c d h i m r t z", "Standard (A, C, D, H, I, M, R, T, Z)", "L-34B43A08", "L-1216C47A"},
    {"g gr vt", "G and VT", "L-3819A6DF", "L-DB2E81BA"},
    {"p", "P", "L-7212CCBC", "L-417A185B"},
    {"f", "F", "L-88CF9481", "L-74FC7D96"},
    {"inf", "Inf", "L-B5D1601B", "L-1945791B"},
    {"trn", "Trn", "L-6B0D517C", "L-2C3B7624"},
    {"x", "X", "L-E3A00192", "L-7295265B"},
};

const QuotaFamily* FamilyOf(std::string_view type) {
  // Special series have letters behind the ones of their family: "im4gn", "hpc7a" (none of these).
  const std::string_view letters = type.substr(0, type.find_first_of("0123456789"));
  const QuotaFamily* first = nullptr;
  for (const QuotaFamily& family : kFamilies) {
    for (size_t at = 0; at < family.letters.size();) {
      const size_t end = std::min(family.letters.find(' ', at), family.letters.size());
      if (family.letters.substr(at, end - at) == letters) {
        first = &family;
      }
      at = end + 1;
    }
  }
  if (first == nullptr && (letters == "im" || letters == "is")) {
    first = &kFamilies[0];
  }
  return first;
}

constexpr size_t kUsePagesMax = 100;    // of a thousand machines
constexpr size_t kTypesAskedMax = 100;  // of one call

class Quotas {
 public:
  Quotas(const std::vector<Pool>& pools, AwsClient* client) : pools_(pools), client_(client) {}

  std::vector<CheckLine> All() {
    is_use_told_ = FindUse().ok();
    if (CallEnd end = FindVcpus(); !end.ok()) {
      Tell("quotas", std::move(end), "", {});
      return std::move(lines_);
    }
    std::map<std::pair<const QuotaFamily*, bool>, std::vector<Pool>> pools_of;
    std::set<std::string> unknown;
    for (const Pool& pool : pools_) {
      const QuotaFamily* const family = FamilyOf(pool.type);
      if (family != nullptr) {
        pools_of[{family, pool.is_spot}].push_back(pool);
      } else if (unknown.insert(pool.type).second) {
        Tell("quota of " + pool.type, {}, "not known which one; look under Service Quotas", {});
      }
    }
    for (const auto& [quota, pools] : pools_of) {
      CheckQuota(*quota.first, quota.second, pools);
    }
    return std::move(lines_);
  }

 private:
  void Tell(
      std::string what,
      CallEnd end,
      std::string finding,
      std::vector<Pool> pools,
      std::optional<uint64_t> room = {}) {
    lines_.push_back(
        {.what = std::move(what),
         .end = std::move(end),
         .finding = std::move(finding),
         .pools = std::move(pools),
         .room = room});
  }

  /// The machines that count now, those of others among them.
  CallEnd FindUse() {
    std::string next;
    do {
      AwsForm form;
      form.AddFilter("instance-state-name", {"pending", "running"});
      form.Add("MaxResults", "1000");
      if (!next.empty()) {
        form.Add("NextToken", next);
      }
      const AwsReply reply = client_->Ec2("DescribeInstances", form, AwsEffect::kReads);
      if (!reply.end.ok()) {
        return reply.end;
      }
      const Result<std::vector<Machine>> machines = ReadInstances(reply.xml);
      if (!machines.ok()) {
        return {.fault = CallFault::kUnclear, .message = std::string(machines.status().message())};
      }
      for (const Machine& machine : *machines) {
        in_use_[{machine.pool.type, machine.pool.is_spot}]++;
      }
      next = reply.xml.TextAt("nextToken");
    } while (!next.empty() && ++pages_ < kUsePagesMax);
    return {};
  }

  double VcpusInUse(const QuotaFamily& family, bool is_spot) const {
    double sum = 0;
    for (const auto& [kind, count] : in_use_) {
      const auto vcpus = vcpus_.find(kind.first);
      if (kind.second == is_spot && FamilyOf(kind.first) == &family && vcpus != vcpus_.end()) {
        sum += count * vcpus->second;
      }
    }
    return sum;
  }

  CallEnd FindVcpus() {
    AwsForm form;
    std::set<std::string> types;
    const auto add = [&](const std::string& type) {
      if (types.size() < kTypesAskedMax && types.insert(type).second) {
        form.Add(fmt::format("InstanceType.{}", types.size()), type);
      }
    };
    for (const Pool& pool : pools_) {
      add(pool.type);
    }
    for (const auto& [kind, count] : in_use_) {
      add(kind.first);
    }
    const AwsReply reply = client_->Ec2("DescribeInstanceTypes", form, AwsEffect::kReads);
    for (const aws::XmlElement& item : reply.xml.ChildrenAt("instanceTypeSet")) {
      const std::string_view text = item.TextAt("vCpuInfo/defaultVCpus");
      int count = 0;
      std::from_chars(text.data(), text.data() + text.size(), count);
      vcpus_[std::string(item.TextAt("instanceType"))] = count;
    }
    return reply.end;
  }

  CallEnd FindLimit(const std::string& code, double* limit) {
    JsonWriter json(JsonForm::kOneLine);
    json.BeginObject();
    json.Field("ServiceCode", "ec2");
    json.Field("QuotaCode", code);
    json.EndObject();
    const AwsReply reply = client_->Json(
        "servicequotas", "ServiceQuotasV20190624.GetServiceQuota", std::move(json).Take());
    if (!reply.end.ok()) {
      return reply.end;
    }
    const JsonValue* const value =
        reply.json.kind == JsonValue::Kind::kObject ? reply.json.At("Quota.Value") : nullptr;
    *limit = -1;
    if (value != nullptr && value->kind == JsonValue::Kind::kNumber) {
      std::from_chars(value->text.data(), value->text.data() + value->text.size(), *limit);
    }
    return *limit >= 0 ? CallEnd{}
                       : CallEnd{
                             .fault = CallFault::kUnclear,
                             .message = "servicequotas gives no value for " + code};
  }

  void CheckQuota(const QuotaFamily& family, bool is_spot, const std::vector<Pool>& pools) {
    const std::string what =
        fmt::format("quota of {} {} vCPUs", family.name, is_spot ? "spot" : "on-demand");
    const std::string code(is_spot ? family.spot_code : family.stable_code);
    double limit = 0;
    if (CallEnd end = FindLimit(code, &limit); !end.ok()) {
      return Tell(what, std::move(end), "", pools);
    }
    const double used = VcpusInUse(family, is_spot);
    std::vector<Pool> fitting;
    std::vector<Pool> others;
    for (const Pool& pool : pools) {
      (used + vcpus_[pool.type] <= limit ? fitting : others).push_back(pool);
    }
    const auto least = [&](const std::vector<Pool>& of) {
      return std::ranges::min_element(of, {}, [&](const Pool& pool) { return vcpus_[pool.type]; });
    };
    const auto finding = [&](const Pool& pool) {
      return fmt::format(
          "{} of {} in use; one {} has {}",
          is_use_told_ ? fmt::format("{}", used) : "it is not told how many",
          limit,
          pool.type,
          vcpus_[pool.type]);
    };
    if (!fitting.empty()) {
      const Pool& pool = *least(fitting);
      const auto room = static_cast<uint64_t>((limit - used) / std::max(vcpus_[pool.type], 1));
      Tell(what, {}, finding(pool), fitting, room);
    }
    if (!others.empty()) {
      const CallEnd full = {
          .fault = CallFault::kQuota,
          .message = fmt::format(
              "{}; ask for more under Service Quotas, EC2, {}", finding(*least(others)), code)};
      Tell(what, full, "", others);
    }
  }

  const std::vector<Pool>& pools_;
  AwsClient* const client_;
  std::map<std::pair<std::string, bool>, int> in_use_;  // machines of a type, spot or not
  bool is_use_told_ = false;
  size_t pages_ = 0;
  std::map<std::string, int> vcpus_;  // by type
  std::vector<CheckLine> lines_;
};

}  // namespace

std::vector<CheckLine> CheckEc2Quotas(const std::vector<Pool>& pools, AwsClient* client) {
  return Quotas(pools, client).All();
}

}  // namespace ps::provisioner
