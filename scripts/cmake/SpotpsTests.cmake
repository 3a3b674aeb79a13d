# How a test is made. Labels: unit (no sockets, no real time), sim, tidy, gpu (skips without a
# device), e2e (real processes), runs (likewise, without sanitizers), bench (tiny sizes), netns
# (hosts from network namespaces; skips without root). A test has a second label when a second build
# is to run it: threads (production code on several threads, for tsan), optimised (an optimised
# build may differ). A test with ALONE runs alone, so that what it measures is not disturbed.

# ps_wants_test(OUT LABEL...): whether this build has tests with one of these labels.
function(ps_wants_test out)
  set(${out} ON PARENT_SCOPE)
  if(PS_TEST_LABELS)
    set(${out} OFF PARENT_SCOPE)
    foreach(label IN LISTS ARGN)
      if(label IN_LIST PS_TEST_LABELS)
        set(${out} ON PARENT_SCOPE)
      endif()
    endforeach()
  endif()
endfunction()

# Test names start with the build's name, so that several builds can be run as one.
get_filename_component(PS_TEST_PREFIX "${PROJECT_BINARY_DIR}" NAME)

# oneDNN and its OpenMP runtime are not instrumented: what they synchronise is not seen.
set(PS_TEST_ENVIRONMENT
  "TSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/scripts/cmake/tsan.supp:halt_on_error=1")

# Some two thirds of compiling a test are headers and templates that its neighbours need too, so
# several are one translation unit. The names in the unnamed namespaces of a folder's tests differ.
option(PS_JOIN_TESTS "Compile the tests of a folder several at a time" ON)
set(PS_JOINED_TESTS_MAX 6 CACHE STRING "How many of them are compiled at a time at most")

# ps_join_tests(NAME SOURCE...): sources that are no *_test.cc stay alone, so that each of them
# still begins with its own header.
function(ps_join_tests name)
  set_target_properties(${name} PROPERTIES
    UNITY_BUILD ${PS_JOIN_TESTS} UNITY_BUILD_BATCH_SIZE ${PS_JOINED_TESTS_MAX})
  set(alone ${ARGN})
  list(FILTER alone EXCLUDE REGEX "_test[.]cc$")
  set_source_files_properties(${alone} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# ps_test(NAME [ALONE] [TIMEOUT s] [TOGETHER FILTER] LABELS ... SOURCES ... LINK ...): one
# GoogleTest binary, run in the source tree's root. A suite is a ctest test; with the label e2e or
# runs, or ALONE, every test is one, for these last seconds and wait for others. Tests that match
# FILTER, which share something dear, are one ctest test. The default TIMEOUT is a suite's.
function(ps_test name)
  cmake_parse_arguments(arg "ALONE" "TIMEOUT;TOGETHER" "LABELS;SOURCES;LINK" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  ps_wants_test(is_wanted ${arg_LABELS})
  if(NOT is_wanted)
    return()
  endif()
  add_executable(${name} ${arg_SOURCES})
  ps_join_tests(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ps_options ${arg_LINK} GTest::gmock GTest::gtest_main)
  # A quarter of compiling a test; what it calls is checked for undefined behaviour, and it itself
  # for addresses.
  if("undefined" IN_LIST PS_SANITIZE)
    target_compile_options(${name} PRIVATE -fno-sanitize=undefined)
  endif()
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
  set(properties TIMEOUT ${arg_TIMEOUT} ENVIRONMENT "${PS_TEST_ENVIRONMENT}")
  if(arg_ALONE)
    list(APPEND properties RUN_SERIAL TRUE)
  endif()
  set(filter "")
  if(arg_TOGETHER)
    set(filter "-${arg_TOGETHER}")
    ps_script_test(${name}.together TIMEOUT ${arg_TIMEOUT} LABELS ${arg_LABELS}
      COMMAND ${name} "--gtest_filter=${arg_TOGETHER}")
    set_tests_properties("${PS_TEST_PREFIX}.${name}.together" PROPERTIES
      SKIP_REGULAR_EXPRESSION "\\[  SKIPPED \\]")
  endif()
  if(arg_ALONE OR "e2e" IN_LIST arg_LABELS OR "runs" IN_LIST arg_LABELS)
    gtest_discover_tests(${name}
      DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
      TEST_PREFIX "${PS_TEST_PREFIX}."
      TEST_FILTER "${filter}"
      WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}"
      PROPERTIES ${properties})
    # gtest_discover_tests takes a second label for the name of a property, so labels come after it.
    set(file "${CMAKE_CURRENT_BINARY_DIR}/${name}_labels.cmake")
    file(WRITE "${file}"
      "if(DEFINED ${name}_TESTS)\n"
      "  set_tests_properties(\${${name}_TESTS} PROPERTIES LABELS \"${arg_LABELS}\")\n"
      "endif()\n")
  else()
    set(file "${CMAKE_CURRENT_BINARY_DIR}/${name}_suites.cmake")
    file(WRITE "${file}"
      "include([==[${PROJECT_SOURCE_DIR}/scripts/cmake/AddSuites.cmake]==])\n"
      "ps_add_suites([==[${PS_TEST_PREFIX}.]==]\n"
      "  [==[${PROJECT_BINARY_DIR}/tests/${name}]==]\n"
      "  [==[${PROJECT_SOURCE_DIR}]==]\n"
      "  [==[${arg_TOGETHER}]==]\n"
      "  ${arg_TIMEOUT}\n"
      "  [==[${PS_TEST_ENVIRONMENT}]==]\n"
      "  [==[${arg_LABELS}]==])\n")
  endif()
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${file}")
endfunction()

# ps_script_test(NAME [TIMEOUT s] LABELS ... COMMAND ...): a command as one test, run in the source
# tree's root. Exit status 77 means skipped, with a line `SKIP: REASON` on stdout: scripts/test.sh
# counts these.
function(ps_script_test name)
  cmake_parse_arguments(arg "" "TIMEOUT" "LABELS;COMMAND" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  ps_wants_test(is_wanted ${arg_LABELS})
  if(NOT is_wanted)
    return()
  endif()
  add_test(NAME "${PS_TEST_PREFIX}.${name}" COMMAND ${arg_COMMAND}
           WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
  set_tests_properties("${PS_TEST_PREFIX}.${name}" PROPERTIES
    TIMEOUT ${arg_TIMEOUT} ENVIRONMENT "${PS_TEST_ENVIRONMENT}" LABELS "${arg_LABELS}"
    SKIP_RETURN_CODE 77)
endfunction()

# ps_benchmark(NAME SOURCES ... LINK ...): a benchmark in bench/, and a test that runs it as --tiny.
function(ps_benchmark name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINK" ${ARGN})
  ps_wants_test(is_wanted bench)
  if(NOT is_wanted)
    return()
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ps_options ${arg_LINK})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bench")
  ps_script_test(bench.${name} LABELS bench COMMAND ${name} --tiny)
endfunction()
