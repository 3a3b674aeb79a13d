#pragma once

#include <string>

#include "ps/base/status.h"
#include "ps/json/json_value.h"
#include "ps/proto/files/file_schema.h"

// Private to ps/proto.

namespace ps::proto {

/// Names, types, ranges, required fields: what a schema says of each field by itself. Returns the
/// first fault, in the form of ErrorAt. Numbers and words that --set gave to a text field become
/// texts.
Status CheckSchema(JsonValue& root, const Schema& schema, const std::string& file);

}  // namespace ps::proto
