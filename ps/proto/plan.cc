#include "ps/proto/plan.h"

#include "ps/proto/file_check.h"
#include "ps/proto/file_values.h"
#include "ps/proto/planning_fields.h"

namespace ps::proto {

Result<Plan> ParsePlan(std::string_view text, const std::string& file) {
  PS_ASSIGN(JsonValue root, ParseJson(text, file));
  PS_TRY(CheckSchema(root, PlanSchema(), file));
  auto plan = ReadValues<Plan>(root, PlanSchema());
  Status status = Status::Ok();
  VisitFields(plan, [&]<typename M>(const std::string& name, const M& member) {
    if constexpr (std::is_same_v<M, Estimate>) {
      if (status.ok() && (member.low > member.value || member.value > member.high)) {
        status = ErrorAtPath(
            file,
            root,
            name,
            name + " is not within its interval; allowed: low, value and high in that order");
      }
    }
  });
  PS_TRY(status);
  return plan;
}

std::string PrintPlan(const Plan& plan) {
  return PrintValues(plan, PlanSchema());
}

}  // namespace ps::proto
