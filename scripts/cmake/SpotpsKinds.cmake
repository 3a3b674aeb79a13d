# What configs/job.fbs says once and C++ needs too, made when the build is configured: enums, their
# names and plain structs, and for each kind of optimizer or layer the header that implements it.
# The enum in the schema is the list of kinds: one without a header fails here, and since the tables
# name what they hold, no linker can drop an entry from a static library.

set(PS_MADE_DIR "${PROJECT_BINARY_DIR}/made")
set(ps_job_schema "${PROJECT_SOURCE_DIR}/configs/job.fbs")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${ps_job_schema}")
target_include_directories(ps_language INTERFACE "${PS_MADE_DIR}")

# Comments away; brackets would join the entries of a CMake list.
file(READ "${ps_job_schema}" ps_job_text)
string(REGEX REPLACE "//[^\n]*" "" ps_job_text "${ps_job_text}")
string(REPLACE "[" "<" ps_job_text "${ps_job_text}")
string(REPLACE "]" ">" ps_job_text "${ps_job_text}")
string(REGEX REPLACE "[ \n]+" " " ps_job_text "${ps_job_text}")

# "avg_pool" to "AvgPool".
function(ps_camel_case name result)
  set(text "")
  string(REPLACE "_" ";" words "${name}")
  foreach(word IN LISTS words)
    string(SUBSTRING "${word}" 0 1 first)
    string(SUBSTRING "${word}" 1 -1 rest)
    string(TOUPPER "${first}" first)
    string(APPEND text "${first}${rest}")
  endforeach()
  set(${result} "${text}" PARENT_SCOPE)
endfunction()

# The values of an enum of the schema, in order.
function(ps_enum_values enum result)
  if(NOT ps_job_text MATCHES "enum ${enum} : ubyte {([^}]*)}")
    message(FATAL_ERROR "configs/job.fbs has no enum ${enum}")
  endif()
  string(REGEX MATCHALL "[a-z0-9_]+" values "${CMAKE_MATCH_1}")
  set(${result} "${values}" PARENT_SCOPE)
endfunction()

function(ps_enum_text enum result)
  ps_enum_values(${enum} values)
  list(LENGTH values count)
  set(text "enum class ${enum} : uint8_t {\n")
  set(names "")
  foreach(value IN LISTS values)
    ps_camel_case("${value}" camel)
    string(APPEND text "  k${camel},\n")
    string(APPEND names "    \"${value}\",\n")
  endforeach()
  string(APPEND text "};\n\n/// As in the job file, by the kind's number.\n")
  string(APPEND text "inline constexpr std::array<std::string_view, ${count}> k${enum}Names = {\n")
  set(${result} "${text}${names}};\n" PARENT_SCOPE)
endfunction()

# "float", "0.5" to "float", "0.5F"; a name that is no type of the schema's language is an enum or a
# table of it.
function(ps_member_types type default type_result default_result)
  set(initial "${default}")
  if(type STREQUAL "int")
    set(type "int32_t")
  elseif(type STREQUAL "uint")
    set(type "uint32_t")
  elseif(type STREQUAL "float" AND initial MATCHES "[.]")
    string(APPEND initial "F")
  elseif(type MATCHES "^<(.*)>$")
    set(type "std::vector<${CMAKE_MATCH_1}>")
    set(initial "{}")
  elseif(NOT type MATCHES "^(float|bool)$")
    set(initial "{}")
  endif()
  set(${type_result} "${type}" PARENT_SCOPE)
  set(${default_result} "${initial}" PARENT_SCOPE)
endfunction()

function(ps_table_text table result)
  if(NOT ps_job_text MATCHES "table ${table} {([^}]*)}")
    message(FATAL_ERROR "configs/job.fbs has no table ${table}")
  endif()
  set(members "")
  set(visits "")
  foreach(field IN LISTS CMAKE_MATCH_1)
    if(NOT field MATCHES "^ *([a-z0-9_]+): ([A-Za-z<>]+)( = ([^ ]+))?")
      continue()  # what is behind the last one
    endif()
    set(name "${CMAKE_MATCH_1}")
    ps_member_types("${CMAKE_MATCH_2}" "${CMAKE_MATCH_4}" type initial)
    string(APPEND members "  ${type} ${name} = ${initial};\n")
    string(APPEND visits "  visit(\"${name}\", c.${name});\n")
  endforeach()
  set(${result} "struct ${table} {
${members}
  friend bool operator==(const ${table}&, const ${table}&) = default;
};

/// Calls visit(name, member) for each field.
template <typename C, typename V>
  requires std::same_as<std::remove_const_t<C>, ${table}>
void VisitFields(C& c, V&& visit) {
${visits}}
" PARENT_SCOPE)
endfunction()

# configs/job_values_generated.h: these enums and tables, a table before those that hold it.
function(ps_make_job_values)
  cmake_parse_arguments(arg "" "" "ENUMS;TABLES" ${ARGN})
  set(text "// Made from configs/job.fbs, which has the meaning of each value and field.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <vector>

namespace ps::config {
")
  foreach(enum IN LISTS arg_ENUMS)
    ps_enum_text(${enum} part)
    string(APPEND text "\n${part}")
  endforeach()
  foreach(table IN LISTS arg_TABLES)
    ps_table_text(${table} part)
    string(APPEND text "\n${part}")
  endforeach()
  file(CONFIGURE OUTPUT "${PS_MADE_DIR}/configs/job_values_generated.h"
    CONTENT "${text}\n}  // namespace ps::config\n" @ONLY)
endfunction()

# The headers in `folder` that implement the enum's values, as #include lines, and what `pattern`
# makes of each: NAME is the value, CAMEL the same in camel case.
function(ps_kind_texts enum folder pattern includes_result lines_result)
  ps_enum_values(${enum} values)
  set(includes "")
  set(lines "")
  foreach(value IN LISTS values)
    if(NOT EXISTS "${PROJECT_SOURCE_DIR}/${folder}/${value}.h")
      message(FATAL_ERROR
        "configs/job.fbs has ${value} in ${enum}, and there is no ${folder}/${value}.h")
    endif()
    ps_camel_case("${value}" camel)
    string(REPLACE "CAMEL" "${camel}" line "${pattern}")
    string(APPEND includes "#include \"${folder}/${value}.h\"\n")
    string(APPEND lines "${line}\n")
  endforeach()
  set(${includes_result} "${includes}" PARENT_SCOPE)
  set(${lines_result} "${lines}" PARENT_SCOPE)
endfunction()

ps_make_job_values(
  ENUMS LayerKind DatasetFormat OptimizerKind OuterKind ScheduleKind
  TABLES LayerConfig ScheduleConfig OptimizerConfig OuterConfig)

ps_kind_texts(OptimizerKind kernels/optimizers
  "    case OptimizerKind::kCAMEL:\n      return CAMEL::With(rule, step, use);" includes cases)
file(CONFIGURE OUTPUT "${PS_MADE_DIR}/kernels/optimizers_generated.h"
  CONTENT "// Made from the enum OptimizerKind of configs/job.fbs.
#pragma once

${includes}#include \"ps/base/check.h\"

namespace ps::kernels {

/// What `use` returns for the rule's optimizer.
template <typename Use>
PS_INLINED auto WithOptimizer(const OptimizerRule& rule, const UpdateStep& step, const Use& use)
    -> decltype(Sgd::With(rule, step, use)) {
  switch (rule.kind) {
${cases}  }
  PS_CHECK(false) << \"no optimizer \" << static_cast<int>(rule.kind);
  return {};
}

}  // namespace ps::kernels
" @ONLY)

ps_kind_texts(LayerKind worker/model/layers "    &kCAMELLayer," includes entries)
ps_enum_values(LayerKind kinds)
list(LENGTH kinds count)
file(CONFIGURE OUTPUT "${PS_MADE_DIR}/worker/model/layers_generated.h"
  CONTENT "// Made from the enum LayerKind of configs/job.fbs.
#pragma once

#include <array>

${includes}
namespace ps::worker {

/// By the kind's number.
inline constexpr std::array<const LayerRule*, ${count}> kLayerRules = {
${entries}};

}  // namespace ps::worker
" @ONLY)

# Kinds of layers whose op is written once for all devices.
set(includes "")
set(options "")
foreach(kind IN LISTS kinds)
  if(EXISTS "${PROJECT_SOURCE_DIR}/kernels/ops/${kind}.h")
    ps_camel_case("${kind}" camel)
    string(APPEND includes "#include \"kernels/ops/${kind}.h\"\n")
    list(APPEND options "${camel}Options")
  endif()
endforeach()
list(JOIN options ", " options)
file(CONFIGURE OUTPUT "${PS_MADE_DIR}/kernels/portable_ops_generated.h"
  CONTENT "// Made from the enum LayerKind of configs/job.fbs and the headers in kernels/ops.
#pragma once

#include \"kernels/portable_op.h\"
${includes}
namespace ps::kernels {

using AllPortableOps = PortableOps<${options}>;

}  // namespace ps::kernels
" @ONLY)
