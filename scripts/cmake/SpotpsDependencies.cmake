# Third-party libraries, each a target that exactly one folder links. scripts/setup.sh installs
# them.

find_package(Threads REQUIRED)

# Asio has no CMake package in Debian. Linked by ps/net alone.
find_path(PS_ASIO_INCLUDE asio.hpp REQUIRED)
add_library(ps_asio INTERFACE)
target_include_directories(ps_asio SYSTEM INTERFACE "${PS_ASIO_INCLUDE}")
# clang needs the two coroutine macros: Asio 1.22 does not see its support by itself.
target_compile_definitions(ps_asio INTERFACE
  ASIO_STANDALONE ASIO_NO_DEPRECATED ASIO_HAS_CO_AWAIT=1 ASIO_HAS_STD_COROUTINE=1)
target_link_libraries(ps_asio INTERFACE Threads::Threads)

# fmt: the text of errors. Linked by ps/base, and so by every folder. Debian's CMake package of it
# defines FMT_SHARED, which matters on Windows alone, in every compile command; hence by name.
find_library(PS_FMT_LIBRARY fmt REQUIRED)
find_path(PS_FMT_INCLUDE fmt/core.h REQUIRED)
add_library(ps_fmt INTERFACE)
target_include_directories(ps_fmt SYSTEM INTERFACE "${PS_FMT_INCLUDE}")
target_link_libraries(ps_fmt INTERFACE "${PS_FMT_LIBRARY}")

# FlatBuffers. Linked by ps/proto alone.
find_program(PS_FLATC flatc REQUIRED)
find_library(PS_FLATBUFFERS_LIBRARY flatbuffers REQUIRED)
find_path(PS_FLATBUFFERS_INCLUDE flatbuffers/flatbuffers.h REQUIRED)
add_library(ps_flatbuffers_lib INTERFACE)
target_include_directories(ps_flatbuffers_lib SYSTEM INTERFACE "${PS_FLATBUFFERS_INCLUDE}")
target_link_libraries(ps_flatbuffers_lib INTERFACE "${PS_FLATBUFFERS_LIBRARY}")

# oneDNN. Linked by kernels/cpu alone. Debian's CMake package of it asks for OpenCL headers, which
# nothing here uses, so the library is found by name.
find_library(PS_DNNL_LIBRARY dnnl REQUIRED)
find_path(PS_DNNL_INCLUDE dnnl.hpp REQUIRED)
add_library(ps_dnnl INTERFACE)
target_include_directories(ps_dnnl SYSTEM INTERFACE "${PS_DNNL_INCLUDE}")
target_link_libraries(ps_dnnl INTERFACE "${PS_DNNL_LIBRARY}")

# RocksDB and zstd. Linked by checkpoint alone. By name, because the CMake package of RocksDB in
# Debian asks for libraries that are not among its dependencies.
find_library(PS_ROCKSDB_LIBRARY rocksdb REQUIRED)
find_path(PS_ROCKSDB_INCLUDE rocksdb/db.h REQUIRED)
add_library(ps_rocksdb INTERFACE)
target_include_directories(ps_rocksdb SYSTEM INTERFACE "${PS_ROCKSDB_INCLUDE}")
target_link_libraries(ps_rocksdb INTERFACE "${PS_ROCKSDB_LIBRARY}")
find_library(PS_ZSTD_LIBRARY zstd REQUIRED)
find_path(PS_ZSTD_INCLUDE zstd.h REQUIRED)
add_library(ps_zstd INTERFACE)
target_include_directories(ps_zstd SYSTEM INTERFACE "${PS_ZSTD_INCLUDE}")
target_link_libraries(ps_zstd INTERFACE "${PS_ZSTD_LIBRARY}")

# ISA-L: inflate, three times as fast as zlib. Linked by worker/data alone.
find_library(PS_ISAL_LIBRARY isal REQUIRED)
find_path(PS_ISAL_INCLUDE isa-l/igzip_lib.h REQUIRED)
add_library(ps_isal INTERFACE)
target_include_directories(ps_isal SYSTEM INTERFACE "${PS_ISAL_INCLUDE}")
target_link_libraries(ps_isal INTERFACE "${PS_ISAL_LIBRARY}")

# libjpeg-turbo and libpng: pictures in files. Linked by worker/data/pictures alone.
find_library(PS_JPEG_LIBRARY jpeg REQUIRED)
find_path(PS_JPEG_INCLUDE jpeglib.h REQUIRED)
add_library(ps_jpeg INTERFACE)
target_include_directories(ps_jpeg SYSTEM INTERFACE "${PS_JPEG_INCLUDE}")
target_link_libraries(ps_jpeg INTERFACE "${PS_JPEG_LIBRARY}")
find_library(PS_PNG_LIBRARY png REQUIRED)
find_path(PS_PNG_INCLUDE png.h REQUIRED)
add_library(ps_png INTERFACE)
target_include_directories(ps_png SYSTEM INTERFACE "${PS_PNG_INCLUDE}")
target_link_libraries(ps_png INTERFACE "${PS_PNG_LIBRARY}")

# libcurl. Linked by ps/http alone. 7.85 brought the option that names the protocols.
find_package(CURL 7.85 REQUIRED)
add_library(ps_curl INTERFACE)
target_link_libraries(ps_curl INTERFACE CURL::libcurl)

# OpenSSL: TLS, certificates, digests. Linked by ps/crypto alone.
find_package(OpenSSL 3 REQUIRED COMPONENTS SSL Crypto)
add_library(ps_openssl INTERFACE)
target_link_libraries(ps_openssl INTERFACE OpenSSL::SSL OpenSSL::Crypto)

# libmicrohttpd: an HTTP server. Linked by run/page alone.
find_library(PS_MICROHTTPD_LIBRARY microhttpd REQUIRED)
find_path(PS_MICROHTTPD_INCLUDE microhttpd.h REQUIRED)
add_library(ps_microhttpd INTERFACE)
target_include_directories(ps_microhttpd SYSTEM INTERFACE "${PS_MICROHTTPD_INCLUDE}")
target_link_libraries(ps_microhttpd INTERFACE "${PS_MICROHTTPD_LIBRARY}")

if(PS_TESTS)
  find_package(GTest REQUIRED)
  include(GoogleTest)
endif()

# CUDA from 12.0 on. Used by kernels/cuda alone; optional. The toolkit is NVIDIA's, on PATH or in
# /usr/local/cuda.
set(PS_CUDA_ARCHITECTURES "75;80;86;89;90;100" CACHE STRING
  "Compute capabilities to compile for, times ten, lowest first")
set(PS_HAVE_CUDA OFF)
set(ps_cuda_reason "PS_CUDA is OFF")
if(NOT PS_CUDA STREQUAL "OFF")
  find_program(PS_NVCC nvcc HINTS /usr/local/cuda/bin)
  set(ps_cuda_reason "there is no nvcc on PATH or in /usr/local/cuda/bin")
  if(PS_NVCC)
    execute_process(COMMAND "${PS_NVCC}" --version OUTPUT_VARIABLE ps_nvcc_version)
    string(REGEX MATCH "release ([0-9]+)" ps_nvcc_release "${ps_nvcc_version}")
    get_filename_component(ps_toolkit "${PS_NVCC}" REALPATH)
    get_filename_component(ps_toolkit "${ps_toolkit}/../.." ABSOLUTE)
    find_path(PS_CUBLASLT_INCLUDE cublasLt.h HINTS "${ps_toolkit}/include")
    if(NOT ps_nvcc_release OR CMAKE_MATCH_1 LESS 12)
      set(ps_cuda_reason "${PS_NVCC} is older than 12.0, the first that knows C++20")
    elseif(NOT PS_CUBLASLT_INCLUDE)
      set(ps_cuda_reason "${PS_NVCC} is there, but cublasLt.h is not; install cuBLAS")
    else()
      set(PS_HAVE_CUDA ON)
    endif()
  endif()
  if(PS_CUDA STREQUAL "ON" AND NOT PS_HAVE_CUDA)
    message(FATAL_ERROR "PS_CUDA=ON, but ${ps_cuda_reason}.")
  endif()
endif()

# Machine code for each of PS_CUDA_ARCHITECTURES that the toolkit knows. Newer devices translate
# what is there for the last one.
set(PS_CUDA_TARGETS "")
if(PS_HAVE_CUDA)
  set(CMAKE_CUDA_COMPILER "${PS_NVCC}")
  set(CMAKE_CUDA_HOST_COMPILER "${CMAKE_CXX_COMPILER}")
  set(CMAKE_CUDA_ARCHITECTURES OFF)  # targets say for themselves
  enable_language(CUDA)
  find_package(CUDAToolkit 12 REQUIRED)
  execute_process(COMMAND "${PS_NVCC}" --list-gpu-arch
    OUTPUT_VARIABLE ps_known COMMAND_ERROR_IS_FATAL ANY)
  foreach(architecture IN LISTS PS_CUDA_ARCHITECTURES)
    if(ps_known MATCHES "compute_${architecture}\n")
      list(APPEND PS_CUDA_TARGETS "${architecture}-real")
    endif()
  endforeach()
  if(NOT PS_CUDA_TARGETS)
    message(FATAL_ERROR "${PS_NVCC} knows none of PS_CUDA_ARCHITECTURES=${PS_CUDA_ARCHITECTURES}.")
  endif()
  list(POP_BACK PS_CUDA_TARGETS ps_newest)
  string(REPLACE "-real" "" ps_newest "${ps_newest}")
  list(APPEND PS_CUDA_TARGETS "${ps_newest}")
  message(STATUS "CUDA backend: for ${PS_CUDA_TARGETS}, by ${PS_NVCC}")
else()
  message(STATUS "CUDA backend: none: ${ps_cuda_reason}")
endif()
