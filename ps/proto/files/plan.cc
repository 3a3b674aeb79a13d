#include "ps/proto/files/plan.h"

#include <fmt/core.h>

#include "plan_bfbs_generated.h"
#include "ps/proto/files/file_check.h"
#include "ps/proto/files/file_schema.h"
#include "ps/proto/files/file_values.h"
#include "ps/proto/files/planning_fields.h"

namespace ps::proto {

namespace {

/// Every estimate of `table`, which is at `prefix` of the file, holds its value.
template <TableValue T>
Status CheckIntervals(
    const T& table, const std::string& prefix, const JsonValue& root, const std::string& file) {
  Status status = Status::Ok();
  VisitFields(table, [&]<typename M>(const std::string& name, const M& member) {
    const std::string path = prefix + name;
    if constexpr (std::is_same_v<M, Estimate>) {
      if (status.ok() && (member.low > member.value || member.value > member.high)) {
        status = ErrorAtPath(
            file,
            root,
            path,
            path + " is not within its interval; allowed: low, value and high in that order");
      }
    } else if constexpr (std::is_same_v<M, std::vector<PlanAlternative>>) {
      for (size_t i = 0; status.ok() && i < member.size(); ++i) {
        status = CheckIntervals(member[i], fmt::format("{}[{}].", path, i), root, file);
      }
    }
  });
  return status;
}

}  // namespace

const Schema& PlanSchema() {
  return *reflection::GetSchema(config::PlanBinarySchema::data());
}

Result<Plan> ParsePlan(std::string_view text, const std::string& file) {
  PS_ASSIGN(JsonValue root, ParseJson(text, file));
  PS_TRY(CheckSchema(root, PlanSchema(), file));
  auto plan = ReadValues<Plan>(root, PlanSchema());
  PS_TRY(CheckIntervals(plan, "", root, file));
  return plan;
}

std::string PrintPlan(const Plan& plan) {
  return PrintValues(plan, PlanSchema());
}

}  // namespace ps::proto
