# SPDX-License-Identifier: Apache-2.0
# C++ tests: one executable a folder, from the x_test.cpp beside the code.
find_package(GTest REQUIRED)

# The tests below one folder of pto/, as NAME_test, linked with what the folder may use.
function(pto_test name folder)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/pto/${folder}/*_test.cpp)
  if(NOT name STREQUAL "worker")  # which links the compiler
    list(FILTER sources EXCLUDE REGEX "/processes/worker/")
  endif()
  add_executable(${name}_test ${sources})
  target_compile_options(${name}_test PRIVATE -O0)  # half of -O2's compile time; the libraries
                                                    # under test stay optimised
  target_link_libraries(${name}_test PRIVATE pto_flags ${ARGN} GTest::gmock GTest::gtest_main
                                             Threads::Threads)
  if(name STREQUAL "base")  # reading GoogleTest's headers once saves a second a file
    target_precompile_headers(base_test PRIVATE <gmock/gmock.h> <gtest/gtest.h>)
  else()
    target_precompile_headers(${name}_test REUSE_FROM base_test)
  endif()
  add_test(NAME ${name} COMMAND ${name}_test)
endfunction()

foreach(folder base launch tasks operators)
  pto_test(${folder} ${folder} pto)
endforeach()
pto_test(device device/npu pto)
if(TARGET pto_compiler)
  foreach(folder ir passes codegen compiler)
    pto_test(${folder} ${folder} pto_compiler)
  endforeach()
  pto_test(worker tasks/processes/worker pto_worker_parts)
endif()

# The instruction set is compiled once per target: the same tests, other flags. cpu_gate runs a
# test only where the CPU has the target's instructions and reports it as skipped elsewhere.
# Two language levels, since kernels of users are C++17 or later.
file(GLOB_RECURSE isa_tests CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/pto/isa/*_test.cpp)
if(PTO_SANITIZE)  # the tests of memory; the others compute in registers and take long to compile
  list(FILTER isa_tests INCLUDE REGEX "(transfer|launch|tails|pipe|comm)_test\\.cpp$")
endif()
add_executable(cpu_gate ${PROJECT_SOURCE_DIR}/tests/cpu_gate.cpp)
target_link_libraries(cpu_gate PRIVATE pto_flags)

# Each run notes which instructions it ran; isa_coverage compares that with the tables. The header
# that notes is precompiled with GoogleTest's, before everything else.
set(coverage ${PROJECT_BINARY_DIR}/coverage)
file(MAKE_DIRECTORY ${coverage})

function(pto_isa_test target standard)
  add_executable(isa_${target}_test ${isa_tests})
  target_compile_options(isa_${target}_test PRIVATE -g0 ${ARGN})
  target_precompile_headers(isa_${target}_test PRIVATE
    <gmock/gmock.h> <gtest/gtest.h> ${PROJECT_SOURCE_DIR}/tests/isa_coverage.hpp)
  target_link_libraries(isa_${target}_test PRIVATE pto_flags pto GTest::gmock GTest::gtest_main)
  set_target_properties(isa_${target}_test PROPERTIES CXX_STANDARD ${standard})
  add_test(NAME isa_${target} COMMAND cpu_gate ${target} $<TARGET_FILE:isa_${target}_test>)
  set_tests_properties(isa_${target} PROPERTIES
    SKIP_RETURN_CODE 77 ENVIRONMENT PTO_COVERAGE_FILE=${coverage}/${target}.txt)
endfunction()

if(isa_tests)
  set(avx2 -mavx2 -mfma -mf16c)
  pto_isa_test(portable 17 -O1)  # two thirds of -O2's compile time; one target has what users have
  pto_isa_test(avx2 17 -O1 ${avx2})
  pto_isa_test(avx512 20 ${avx2} -mavx512f -mavx512bw -mavx512dq -mavx512vl)
endif()
if(isa_tests AND NOT PTO_SANITIZE)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  add_test(NAME isa_coverage
           COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/coverage.py ${coverage})
  set_tests_properties(isa_coverage PROPERTIES DEPENDS "isa_portable;isa_avx2;isa_avx512")
endif()
