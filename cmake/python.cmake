# SPDX-License-Identifier: Apache-2.0
# The extension module pto._core and the adapters' prebuilt libraries, with the wheel's layout.
find_package(Python 3.10 REQUIRED COMPONENTS Interpreter Development.Module)
execute_process(COMMAND ${Python_EXECUTABLE} -m nanobind --cmake_dir
                OUTPUT_STRIP_TRAILING_WHITESPACE OUTPUT_VARIABLE nanobind_ROOT)

pto_sources(sources bindings)
if(sources)
  find_package(nanobind CONFIG REQUIRED)
  nanobind_add_module(_core NB_STATIC NB_SUPPRESS_WARNINGS NOMINSIZE ${sources})
  target_link_libraries(_core PRIVATE pto_flags pto_compiler)
  pto_precompile(_core <nanobind/nanobind.h> <nanobind/stl/string.h> <nanobind/stl/vector.h>)
  pto_unity(_core)
  if(PTO_UNITY)
    set_target_properties(nanobind-static PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
  endif()
  set_target_properties(_core PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PTO_PACKAGE_DIR}
                                         BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$ORIGIN/lib")
  install(TARGETS _core LIBRARY DESTINATION pto)
endif()

# What `python -m pto bench` measures the machine with; bench/*.cpp link it too.
pto_sources(sources bench)
add_library(pto_bench SHARED ${sources})
target_link_libraries(pto_bench PRIVATE pto_flags pto)
target_compile_options(pto_bench PRIVATE -Wno-psabi)  # vectors of other targets, all inlined
set_target_properties(pto_bench PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PTO_PACKAGE_DIR}/lib
                      BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$ORIGIN")
install(TARGETS pto_bench LIBRARY DESTINATION pto/lib)

# The prebuilt library of an adapter, pto_<name>: the sources of its folder but those that EXCEPT
# matches, which need the installed framework's headers (`python -m pto adapters build <name>`).
function(pto_adapter name)
  cmake_parse_arguments(arg "" "EXCEPT" "" ${ARGN})
  pto_sources(sources adapters/${name})
  if(arg_EXCEPT)
    list(FILTER sources EXCLUDE REGEX ${arg_EXCEPT})
  endif()
  add_library(pto_${name} SHARED ${sources})
  target_link_libraries(pto_${name} PRIVATE pto_flags pto)
  pto_unity(pto_${name})
  set_target_properties(pto_${name} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PTO_PACKAGE_DIR}/lib
                        BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$ORIGIN")
  install(TARGETS pto_${name} LIBRARY DESTINATION pto/lib)
endfunction()

# PyTorch: operators through its C shims, which need no header of PyTorch. An empty library of the
# same SONAME makes the dynamic linker find these symbols in the libtorch_cpu.so already loaded.
pto_adapter(torch EXCEPT
            "/(node|autocast|[a-z]+_(call|front|owner|reader|view)|scaled_dot_product)\\.cpp$")
file(WRITE ${PROJECT_BINARY_DIR}/stub/empty.cpp "")
add_library(torch_stub SHARED ${PROJECT_BINARY_DIR}/stub/empty.cpp)
set_target_properties(torch_stub PROPERTIES OUTPUT_NAME torch_cpu
                      LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/stub)
target_link_options(pto_torch PRIVATE -Wl,--no-as-needed $<TARGET_FILE:torch_stub>)
add_dependencies(pto_torch torch_stub)

# JAX: the handler of XLA's foreign function interface, which needs no header of XLA.
pto_adapter(jax)

# ONNX Runtime: custom operators and the execution provider in one library, from our own header of
# its C interface.
pto_adapter(onnxruntime)
file(STRINGS ${PROJECT_SOURCE_DIR}/pto/__init__.py version REGEX "^__version__")
string(REGEX REPLACE ".*\"(.*)\"" "\\1" version "${version}")
target_compile_definitions(pto_onnxruntime PRIVATE PTO_VERSION="${version}")

# MindSpore: operators as the plain functions that its ops.Custom looks up; no header of it is
# needed, but its strings are those of the old ABI.
pto_adapter(mindspore EXCEPT "/eager\\.cpp$")
target_compile_definitions(pto_mindspore PRIVATE _GLIBCXX_USE_CXX11_ABI=0)
