#include "ps/proto/planning_schema.h"

#include "catalog_bfbs_generated.h"
#include "plan_bfbs_generated.h"
#include "profile_bfbs_generated.h"

namespace ps::proto {

const Schema& CatalogSchema() {
  return *reflection::GetSchema(config::CatalogBinarySchema::data());
}

const Schema& ProfileSchema() {
  return *reflection::GetSchema(config::JobProfileBinarySchema::data());
}

const Schema& PlanSchema() {
  return *reflection::GetSchema(config::PlanBinarySchema::data());
}

}  // namespace ps::proto
