#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "flatbuffers/reflection.h"

// The schemas of configs/*.fbs as the program sees them: binary, built in. Private to ps/proto.

namespace ps::proto {

using Schema = reflection::Schema;

/// configs/job.fbs, catalog.fbs, profile.fbs and plan.fbs. All but the job's are in the target of
/// the planner's files: programs that read a job alone do not carry them.
const Schema& JobSchema();
const Schema& CatalogSchema();
const Schema& ProfileSchema();
const Schema& PlanSchema();

/// Each table once, the root first, a table before those inside it.
std::vector<const reflection::Object*> TablesOf(const Schema& schema);
/// In the order of the schema file.
std::vector<const reflection::Field*> FieldsOf(const reflection::Object& table);
/// Requires: there is such a field; a name that the C++ side misspells is a bug.
const reflection::Field& FieldNamed(const reflection::Object& table, std::string_view name);

bool IsList(const reflection::Field& field);
/// The type of the field, or of a list's elements.
reflection::BaseType TypeOf(const reflection::Field& field);
bool IsTable(const reflection::Field& field);
bool IsFloat(const reflection::Field& field);
/// The table that the field or its elements are. Requires: IsTable.
const reflection::Object& TableOf(const Schema& schema, const reflection::Field& field);
bool IsEnum(const reflection::Field& field);
/// Null when the field is no enum.
const reflection::Enum* EnumOf(const Schema& schema, const reflection::Field& field);
std::string_view EnumName(const reflection::Enum& values, int64_t value);
std::optional<int64_t> EnumValue(const reflection::Enum& values, std::string_view name);
std::vector<std::string_view> EnumNames(const reflection::Enum& values);

/// Whether a file has to say it: `required`, or `needed` for what flatc can't require.
bool IsRequired(const reflection::Field& field);

/// The attribute's text; empty when the field has none.
std::string_view Attribute(const reflection::Field& field, const char* name);
/// The same, cut at spaces.
std::vector<std::string_view> AttributeWords(const reflection::Field& field, const char* name);

/// What a number may be; an absent bound does not bind.
struct Range {
  std::optional<double> min, max, above, below;

  bool Contains(double value) const;
};

Range RangeOf(const reflection::Field& field);

/// What may stand there: "a whole number from 1 to 100000", "one of async, ssp, bsp".
std::string AllowedFor(const Schema& schema, const reflection::Field& field);
/// As JSON; empty for tables and lists.
std::string DefaultOf(const Schema& schema, const reflection::Field& field);

using Documentation = flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>;
/// A `///` comment as one line.
std::string CommentOf(const Documentation* documentation);

/// `; did you mean "x"?` for the candidate that looks most like `name`, empty when none does.
std::string DidYouMean(std::string_view name, const std::vector<std::string_view>& candidates);

}  // namespace ps::proto
