# Included by ctest. A process for each of thousands of tests cost more than what these do, so a
# suite of a GoogleTest binary is one ctest test.

# ps_add_suites(PREFIX PROGRAM FOLDER WITHOUT TIMEOUT ENVIRONMENT LABELS): asks PROGRAM, which runs
# in FOLDER, for its suites. Tests that match the filter WITHOUT are left out.
function(ps_add_suites prefix program folder without timeout environment labels)
  if(NOT EXISTS "${program}")
    get_filename_component(name "${program}" NAME)
    add_test("${prefix}${name}_NOT_BUILT" "${program}")
    return()
  endif()
  execute_process(
    COMMAND "${program}" --gtest_list_tests "--gtest_filter=-${without}"
    WORKING_DIRECTORY "${folder}" TIMEOUT 60 OUTPUT_VARIABLE listed RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${program} --gtest_list_tests: ${result}\n${listed}")
  endif()
  # Suites stand at the beginning of their lines and end with a dot; types are told in a comment.
  string(REGEX MATCHALL "(^|\n)[^ \n]+[.]" suites "${listed}")
  foreach(suite IN LISTS suites)
    string(STRIP "${suite}" suite)
    set(filter "${suite}*")
    if(without)
      string(APPEND filter "-${without}")
    endif()
    set(test "${prefix}${suite}")
    string(REGEX REPLACE "[.]$" "" test "${test}")
    add_test("${test}" "${program}" "--gtest_filter=${filter}")
    set_tests_properties("${test}" PROPERTIES WORKING_DIRECTORY "${folder}" TIMEOUT "${timeout}"
      ENVIRONMENT "${environment}" LABELS "${labels}")
  endforeach()
endfunction()
