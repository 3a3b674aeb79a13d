#pragma once

#include "ps/proto/file_schema.h"

// The schemas of the planner's files. Apart from file_schema.h, since programs that read a job's
// config alone do not carry them. Private to ps/proto.

namespace ps::proto {

/// configs/catalog.fbs, profile.fbs and plan.fbs.
const Schema& CatalogSchema();
const Schema& ProfileSchema();
const Schema& PlanSchema();

}  // namespace ps::proto
