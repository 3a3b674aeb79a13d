# How a target of this project is made: one call, explicit sources, no global flags.

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 12)
  message(FATAL_ERROR
    "g++ ${CMAKE_CXX_COMPILER_VERSION} was never tried; the oldest g++ that this code was compiled "
    "with is 12. Configure with -DCMAKE_CXX_COMPILER=g++-12, or clang++-19 as the presets do.")
endif()

find_program(PS_CCACHE ccache)
if(PS_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${PS_CCACHE}")
endif()

set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")

# Language level, include root and warnings, without sanitizers.
add_library(ps_language INTERFACE)
target_compile_features(ps_language INTERFACE cxx_std_20)
target_include_directories(ps_language INTERFACE "${PROJECT_SOURCE_DIR}")
set(ps_warnings
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor -Woverloaded-virtual)
# g++ 12 takes "s" + std::to_string(n) for overlapping memory (GCC bug 105651), and its own AVX-512
# header reads what it has not set, on purpose (GCC bug 105593).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  list(APPEND ps_warnings -Wno-restrict -Wno-uninitialized -Wno-maybe-uninitialized)
endif()
target_compile_options(ps_language INTERFACE
  "$<$<COMPILE_LANGUAGE:CXX>:${ps_warnings}>"
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:Clang>>:-Wthread-safety>
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${PS_WERROR}>>:-Werror>)

# Everything of ours that runs links this.
add_library(ps_options INTERFACE)
target_link_libraries(ps_options INTERFACE ps_language)
if(PS_SANITIZE)
  list(JOIN PS_SANITIZE "," ps_sanitize_list)
  set(ps_sanitize_options
    "-fsanitize=${ps_sanitize_list}" -fno-omit-frame-pointer -fno-sanitize-recover=undefined)
  target_compile_options(ps_options INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${ps_sanitize_options}>")
  target_link_options(ps_options INTERFACE "-fsanitize=${ps_sanitize_list}")
  # It links the large programs of such builds in a sixth of the time.
  find_program(PS_LLD ld.lld)
  if(PS_LLD AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    target_link_options(ps_options INTERFACE -fuse-ld=lld)
  endif()
endif()

# libFuzzer comes with clang and is used together with the address sanitizer.
set(PS_HAVE_LIBFUZZER OFF)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang" AND "address" IN_LIST PS_SANITIZE)
  set(PS_HAVE_LIBFUZZER ON)
endif()

# ps_fuzzed(NAME): tests/fuzz is guided by what it reaches in this library, which parses files or
# messages. Other programs do not notice.
function(ps_fuzzed name)
  if(PS_HAVE_LIBFUZZER)
    target_compile_options(${name} PRIVATE -fsanitize=fuzzer-no-link)
  endif()
endfunction()

# Code that reads arguments, prints, or waits for others, in which no test spends long. Debug builds
# leave it unoptimised: with sanitizers that halves its compile time. Not servers and coordinator:
# their tests then take five times as long.
function(ps_cold name)
  target_compile_options(${name} PRIVATE $<$<CONFIG:Debug>:-O0>)
endfunction()

# ps_library(NAME [COLD] SOURCES ... [LINK ...] [PRIVATE_LINK ...]): target NAME and alias
# spotps::NAME, built where a program or a test links it. The folder table of the architecture is
# kept by what each one links.
function(ps_library name)
  cmake_parse_arguments(arg "COLD" "" "SOURCES;LINK;PRIVATE_LINK" ${ARGN})
  add_library(${name} STATIC EXCLUDE_FROM_ALL ${arg_SOURCES})
  add_library(spotps::${name} ALIAS ${name})
  target_link_libraries(${name} PUBLIC ps_options ${arg_LINK} PRIVATE ${arg_PRIVATE_LINK})
  if(arg_COLD)
    ps_cold(${name})
  endif()
endfunction()

# ps_look_for_libraries(NAME FOLDER): in this folder before those of the system: scripts/tarball.sh
# puts libraries there. By RPATH, which counts for what these libraries need in turn, too; RUNPATH,
# the linker's default, does not. Not BUILD_RPATH: CMake puts a colon behind that, which stands for
# the current folder.
function(ps_look_for_libraries name folder)
  set_target_properties(${name} PROPERTIES
    INSTALL_RPATH "${folder}" INSTALL_RPATH_USE_LINK_PATH ON BUILD_WITH_INSTALL_RPATH ON)
  target_link_options(${name} PRIVATE -Wl,--disable-new-dtags)
endfunction()

# ps_program(NAME SOURCES ... LINK ...): an executable in bin/, whose work is done in libraries.
function(ps_program name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ps_options ${arg_LINK})
  ps_look_for_libraries(${name} "$ORIGIN/../lib")
  ps_cold(${name})
  if(NOT PS_PROGRAMS)
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)
  endif()
endfunction()

# ps_flatbuffers(TARGET HEADERS SCHEMA...): generates <schema>_generated.h and bfbs beside it in the
# build tree, and adds the folder to TARGET's private includes.
function(ps_flatbuffers target)
  set(out_dir "${CMAKE_CURRENT_BINARY_DIR}/generated")
  foreach(schema IN LISTS ARGN)
    get_filename_component(stem "${schema}" NAME_WE)
    get_filename_component(schema_path "${schema}" ABSOLUTE)
    add_custom_command(
      OUTPUT "${out_dir}/${stem}_generated.h"
      COMMAND "${PS_FLATC}" --cpp --scoped-enums --cpp-std c++17 --cpp-static-reflection -o
              "${out_dir}" "${schema_path}"
      DEPENDS "${schema_path}" VERBATIM)
    target_sources(${target} PRIVATE "${out_dir}/${stem}_generated.h")
  endforeach()
  target_include_directories(${target} SYSTEM PRIVATE "${out_dir}")
endfunction()
