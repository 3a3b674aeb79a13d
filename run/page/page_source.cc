#include "run/page/page_source.h"

#include <utility>

#include "ps/json/json_writer.h"
#include "run/page/state_json.h"

namespace ps::run {
namespace {

std::string StateJson(const proto::JobStatus& status, const std::string& plan) {
  JsonWriter json(JsonForm::kOneLine);
  json.BeginObject();
  AddPageState(status, &json);
  if (!plan.empty()) {
    json.Key("plan");
    json.Raw(plan);
  }
  json.EndObject();
  return std::move(json).Take();
}

}  // namespace

PageLook::PageLook(std::shared_ptr<const proto::JobStatus> status, const std::string& plan)
    : status_(std::move(status)), json_(StateJson(*status_, plan)) {}

}  // namespace ps::run
