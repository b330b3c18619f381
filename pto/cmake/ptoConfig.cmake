# SPDX-License-Identifier: Apache-2.0
# find_package(pto): the headers and libpto of an installed wheel, or of a checkout that is built.
#
#     find_package(pto REQUIRED)        # cmake -Dpto_DIR=$(python -m pto config --cmake)
#     pto_add_kernel(kernels add.cpp)   # a library of C++ kernels, compiled as pto compiles them
#     target_link_libraries(app PRIVATE kernels pto::pto)
#
# pto::pto     libpto.so and the folder of <pto/pto-inst.hpp> and <pto/abi/*.h>; C and C++17
# pto::compat  the public library's spellings, for its sources as they are
cmake_minimum_required(VERSION 3.20)

get_filename_component(pto_PACKAGE "${CMAKE_CURRENT_LIST_DIR}/.." ABSOLUTE)
get_filename_component(pto_INCLUDE_DIR "${pto_PACKAGE}/.." ABSOLUTE)
set(pto_LIBRARY "${pto_PACKAGE}/lib/libpto.so")
if(NOT EXISTS "${pto_LIBRARY}")
  set(pto_FOUND FALSE)
  set(pto_NOT_FOUND_MESSAGE "${pto_LIBRARY} is missing: this checkout has not built it; "
                            "run ./dev build")
  return()
endif()

if(NOT TARGET pto::pto)
  add_library(pto::pto SHARED IMPORTED)
  set_target_properties(pto::pto PROPERTIES
    IMPORTED_LOCATION "${pto_LIBRARY}"
    IMPORTED_SONAME "libpto.so"
    INTERFACE_INCLUDE_DIRECTORIES "${pto_INCLUDE_DIR}")

  set(pto_compat "${pto_PACKAGE}/compat")
  if(NOT IS_DIRECTORY "${pto_compat}")
    set(pto_compat "${pto_INCLUDE_DIR}/compat")
  endif()
  add_library(pto::compat INTERFACE IMPORTED)
  set_target_properties(pto::compat PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${pto_compat}"
    INTERFACE_COMPILE_DEFINITIONS "__CPU_SIM"
    INTERFACE_LINK_LIBRARIES pto::pto)
endif()

# The instructions that kernels use; the default is what the CPU of this machine has.
function(pto_machine_target result)
  set(found portable)
  if(EXISTS /proc/cpuinfo)
    file(STRINGS /proc/cpuinfo features REGEX "^flags" LIMIT_COUNT 1)
    if(features MATCHES " avx2 " AND features MATCHES " fma " AND features MATCHES " f16c ")
      set(found avx2)
      string(REGEX MATCHALL " avx512(f|bw|dq|vl)" parts "${features}")
      list(REMOVE_DUPLICATES parts)
      list(LENGTH parts count)
      if(count EQUAL 4)
        set(found avx512)
      endif()
    endif()
  endif()
  set(${result} ${found} PARENT_SCOPE)
endfunction()

# As target_flags() of pto/base/machine.cpp; a portable build is one that was asked for.
set(pto_FLAGS_portable -DPTO_PORTABLE)
set(pto_FLAGS_avx2 -mavx2 -mfma -mf16c)
set(pto_FLAGS_avx512 ${pto_FLAGS_avx2} -mavx512f -mavx512bw -mavx512dq -mavx512vl
                     -mtune=icelake-server)

# pto_add_kernel(<name> [SHARED] [TARGET portable|avx2|avx512] <source>...)
function(pto_add_kernel name)
  cmake_parse_arguments(PARSE_ARGV 1 own "SHARED" "TARGET" "")
  if(NOT own_TARGET)
    pto_machine_target(own_TARGET)
  endif()
  if(NOT DEFINED pto_FLAGS_${own_TARGET})
    message(FATAL_ERROR "pto_add_kernel(${name}): the target '${own_TARGET}' is unknown\n"
      "why: a target names the instructions that code may use\n"
      "fix: write TARGET portable, avx2 or avx512, or leave it out for this machine's")
  endif()
  if(NOT own_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "pto_add_kernel(${name}): there are no sources\n"
      "why: kernels are functions of C++ files\nfix: name them behind ${name}")
  endif()
  set(kind STATIC)
  if(own_SHARED)
    set(kind SHARED)
  endif()
  add_library(${name} ${kind} ${own_UNPARSED_ARGUMENTS})
  target_compile_features(${name} PUBLIC cxx_std_17)
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_EXTENSIONS OFF)
  target_compile_options(${name} PRIVATE -O2 -fno-math-errno -fno-trapping-math -ffp-contract=off
                                         ${pto_FLAGS_${own_TARGET}})
  # In wider moves g++ 12 copies {8, 8, 0, 0} as {8, 8, 8, 8}; see pto/compiler/toolchain.cpp.
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND NOT own_TARGET STREQUAL portable)
    target_compile_options(${name} PRIVATE -mmove-max=128 -mstore-max=128)
  endif()
  target_link_libraries(${name} PUBLIC pto::pto)
endfunction()
