# SPDX-License-Identifier: Apache-2.0
# C++ tests: one executable a folder, from the x_test.cpp beside the code.
find_package(GTest REQUIRED)

# The tests below one folder of pto/, as NAME_test, linked with what the folder may use.
function(pto_test name folder)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/pto/${folder}/*_test.cpp)
  if(NOT name STREQUAL "worker")  # which links the compiler
    list(FILTER sources EXCLUDE REGEX "/processes/worker/")
  endif()
  if(PTO_SANITIZE STREQUAL "thread")  # these are of one thread
    list(FILTER sources EXCLUDE REGEX "/(book|simulate)/|/(number|signature|expression|task)_test")
  endif()
  add_executable(${name}_test ${sources})
  target_compile_options(${name}_test PRIVATE -O0)  # half of -O2's compile time; the libraries
                                                    # under test stay optimised
  target_link_libraries(${name}_test PRIVATE pto_flags ${ARGN} GTest::gmock GTest::gtest_main
                                             Threads::Threads)
  # A third of what sanitized tests cost to compile; the libraries under test keep the check.
  set_target_properties(${name}_test PROPERTIES PTO_MEMORY_ONLY ON)
  get_property(first GLOBAL PROPERTY pto_first_test)  # reading GoogleTest's headers once saves
  if(first)                                           # a second a file
    target_precompile_headers(${name}_test REUSE_FROM ${first})
  else()
    target_precompile_headers(${name}_test PRIVATE <gmock/gmock.h> <gtest/gtest.h>)
    set_property(GLOBAL PROPERTY pto_first_test ${name}_test)
  endif()
  pto_unity(${name}_test)
  add_test(NAME ${name} COMMAND ${name}_test)
endfunction()

pto_test(launch launch pto)
pto_test(tasks tasks pto)
pto_test(device device/npu pto)
if(NOT PTO_SANITIZE STREQUAL "thread")
  pto_test(base base pto)
  pto_test(operators operators pto)
endif()
if(TARGET pto_compiler)
  foreach(folder ir passes codegen compiler)
    pto_test(${folder} ${folder} pto_compiler)
  endforeach()
  pto_test(worker tasks/processes/worker pto_worker_parts)
endif()

# The instruction set is compiled once per target: the same tests, other flags. cpu_gate runs a
# test only where the CPU has the target's instructions and reports it as skipped elsewhere.
# Two language levels, since kernels of users are C++17 or later.
#
# Quick is the best target of this machine, and for the targets below it the files whose code
# differs by target: what calls cpu/ directly, masks of compared lanes, tails. Deep (./dev test
# --deep) are all of them for each target, compiled as users compile. tests/test_instructions.py
# runs the rows of the table for each target in both.
file(GLOB_RECURSE isa_tests CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/pto/isa/*_test.cpp)
set(isa_differing ${isa_tests})
string(CONCAT differing "/(math|doubles|convert|compare|generate|partial|tails|matmul|fixpipe|"
              ".*reduce|.*sums|sort)_test.cpp$")
list(FILTER isa_differing INCLUDE REGEX ${differing})
set(isa_memory ${isa_tests})  # the others compute in registers and take long to compile
list(FILTER isa_memory INCLUDE REGEX
     "(attention|tiles|transfer|launch|tails|pipe|comm)_test\\.cpp$")
set(isa_loops ${isa_tests})  # what calls the loops of libpto
list(FILTER isa_loops INCLUDE REGEX
     "(attention|split|tiles|conv|fixpipe|matrix_transfer|matmul[a-z_]*)_test\\.cpp$")
add_executable(cpu_gate ${PROJECT_SOURCE_DIR}/tests/cpu_gate.cpp)
target_link_libraries(cpu_gate PRIVATE pto_flags)

# The targets that this machine runs, the best one last.
set(machine portable)
file(STRINGS /proc/cpuinfo cpu REGEX "^flags" LIMIT_COUNT 1)
if("${cpu} " MATCHES " avx2 " AND "${cpu} " MATCHES " fma ")
  list(APPEND machine avx2)
  if("${cpu} " MATCHES " avx512f " AND "${cpu} " MATCHES " avx512bw " AND
     "${cpu} " MATCHES " avx512dq " AND "${cpu} " MATCHES " avx512vl ")
    list(APPEND machine avx512)
  endif()
endif()
list(GET machine -1 best)

# Each run notes which instructions it ran; isa_coverage compares that with the tables. The header
# that notes is precompiled with GoogleTest's, before everything else.
set(coverage ${PROJECT_BINARY_DIR}/coverage)
file(MAKE_DIRECTORY ${coverage})
set(flags_portable)
set(flags_avx2 ${avx2})
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  list(APPEND flags_avx2 -mmove-max=128 -mstore-max=128)  # as kernels: compiler/toolchain.cpp
endif()
set(flags_avx512 ${flags_avx2} -mavx512f -mavx512bw -mavx512dq -mavx512vl)
set(standard_portable 17)
set(standard_avx2 17)
set(standard_avx512 20)

# The tests of instructions in these sources for one target, as isa_<name>_test.
function(pto_isa_test name target sources)
  add_executable(isa_${name}_test ${${sources}})
  target_compile_options(isa_${name}_test PRIVATE -g0 -Wno-psabi ${ARGN} ${flags_${target}})
  target_precompile_headers(isa_${name}_test PRIVATE
    <gmock/gmock.h> <gtest/gtest.h> ${PROJECT_SOURCE_DIR}/tests/isa_coverage.hpp)
  target_link_libraries(isa_${name}_test PRIVATE pto_flags pto GTest::gmock GTest::gtest_main)
  set_target_properties(isa_${name}_test PROPERTIES CXX_STANDARD ${standard_${target}})
  set_source_files_properties(  # they define macros that change the headers
    ${PROJECT_SOURCE_DIR}/pto/isa/kernel/checked_test.cpp
    ${PROJECT_SOURCE_DIR}/pto/isa/kernel/checked_regions_test.cpp
    ${PROJECT_SOURCE_DIR}/pto/isa/reduce/pair_reduce_test.cpp
    PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  pto_unity(isa_${name}_test)
  add_test(NAME isa_${name} COMMAND cpu_gate ${target} $<TARGET_FILE:isa_${name}_test>)
  set_tests_properties(isa_${name} PROPERTIES SKIP_RETURN_CODE 77)
  if(sources STREQUAL "isa_tests")
    set_tests_properties(isa_${name} PROPERTIES ENVIRONMENT
                         PTO_COVERAGE_FILE=${coverage}/${name}.txt)
    set_property(GLOBAL APPEND PROPERTY pto_covering isa_${name})
  endif()
endfunction()

add_custom_target(deep_tests)
set(calls -O0 -DPTO_INLINE=inline)  # half the time to compile that inlining takes
if(PTO_SANITIZE_LOOPS)
  foreach(target IN LISTS machine)
    pto_isa_test(${target} ${target} isa_loops ${calls})
    set_tests_properties(isa_${target} PROPERTIES ENVIRONMENT PTO_DEEP=)  # half a minute, not 30
  endforeach()
elseif(PTO_SANITIZE)
  pto_isa_test(avx2 avx2 isa_memory ${calls})
else()
  foreach(target IN LISTS machine)
    if(target STREQUAL best)
      pto_isa_test(${target} ${target} isa_tests ${calls})
    else()
      pto_isa_test(${target} ${target} isa_differing ${calls})
    endif()
  endforeach()
  foreach(target portable avx2 avx512)
    pto_isa_test(deep_${target} ${target} isa_tests -O2)
    set_target_properties(isa_deep_${target}_test PROPERTIES EXCLUDE_FROM_ALL ON)
    add_dependencies(deep_tests isa_deep_${target}_test)
    if(TEST isa_${target})  # what it has in common with this one need not run deep twice
      set_property(TEST isa_${target} APPEND PROPERTY ENVIRONMENT PTO_DEEP=)
    endif()
  endforeach()
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  add_test(NAME isa_coverage
           COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/coverage.py ${coverage})
  get_property(covering GLOBAL PROPERTY pto_covering)
  set_tests_properties(isa_coverage PROPERTIES DEPENDS "${covering}")
endif()

# What ./dev test builds and runs of this build: the target and the label quick.
if(PTO_SANITIZE STREQUAL "thread")
  set(quick launch tasks device)
elseif(PTO_SANITIZE_LOOPS)
  list(TRANSFORM machine PREPEND isa_ OUTPUT_VARIABLE quick)
elseif(PTO_SANITIZE)
  set(quick base launch tasks device operators isa_avx2)
else()
  get_property(quick DIRECTORY PROPERTY TESTS)
  list(FILTER quick EXCLUDE REGEX "_deep_")
endif()
set_tests_properties(${quick} PROPERTIES LABELS quick)
foreach(long tasks compiler)  # start first, so that no core waits for them in the end
  if(long IN_LIST quick)
    set_tests_properties(${long} PROPERTIES COST 100)
  endif()
endforeach()
list(FILTER quick EXCLUDE REGEX "_coverage$")
list(TRANSFORM quick APPEND _test)
add_custom_target(quick_tests)
add_dependencies(quick_tests cpu_gate ${quick})
if(PTO_SANITIZE STREQUAL "thread")  # half of its time it waits: two halves beside one another
  add_test(NAME tasks_others COMMAND tasks_test)
  set_tests_properties(tasks PROPERTIES ENVIRONMENT "GTEST_TOTAL_SHARDS=2;GTEST_SHARD_INDEX=0")
  set_tests_properties(tasks_others PROPERTIES LABELS quick COST 100 ENVIRONMENT
                       "GTEST_TOTAL_SHARDS=2;GTEST_SHARD_INDEX=1")
endif()
