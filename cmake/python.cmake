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
  set_target_properties(_core PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PTO_PACKAGE_DIR}
                                         BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$ORIGIN/lib")
  install(TARGETS _core LIBRARY DESTINATION pto)
endif()

# PyTorch: operators through its C shims, which need no header of PyTorch. An empty library of the
# same SONAME makes the dynamic linker find these symbols in the libtorch_cpu.so already loaded.
# node.cpp and autocast.cpp need the headers of the installed version: `python -m pto adapters build
# torch`.
pto_sources(sources adapters/torch)
list(FILTER sources EXCLUDE REGEX "/(node|autocast)\\.cpp$")
if(sources)
  file(WRITE ${PROJECT_BINARY_DIR}/stub/empty.cpp "")
  add_library(torch_stub SHARED ${PROJECT_BINARY_DIR}/stub/empty.cpp)
  set_target_properties(torch_stub PROPERTIES OUTPUT_NAME torch_cpu
                        LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/stub)
  add_library(pto_torch SHARED ${sources})
  target_link_libraries(pto_torch PRIVATE pto_flags pto)
  target_link_options(pto_torch PRIVATE -Wl,--no-as-needed $<TARGET_FILE:torch_stub>)
  add_dependencies(pto_torch torch_stub)
  set_target_properties(pto_torch PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PTO_PACKAGE_DIR}/lib
                        BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$ORIGIN")
  install(TARGETS pto_torch LIBRARY DESTINATION pto/lib)
endif()

# JAX: the handler of XLA's foreign function interface, which needs no header of XLA.
pto_sources(sources adapters/jax)
if(sources)
  add_library(pto_jax SHARED ${sources})
  target_link_libraries(pto_jax PRIVATE pto_flags pto)
  set_target_properties(pto_jax PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PTO_PACKAGE_DIR}/lib
                        BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$ORIGIN")
  install(TARGETS pto_jax LIBRARY DESTINATION pto/lib)
endif()

# ONNX Runtime: custom operators and the execution provider in one library, from our own header of
# its C interface.
pto_sources(sources adapters/onnxruntime)
if(sources)
  add_library(pto_onnxruntime SHARED ${sources})
  target_link_libraries(pto_onnxruntime PRIVATE pto_flags pto)
  set_target_properties(pto_onnxruntime PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PTO_PACKAGE_DIR}/lib
                        BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$ORIGIN")
  install(TARGETS pto_onnxruntime LIBRARY DESTINATION pto/lib)
endif()

# MindSpore: operators as the plain functions that its ops.Custom looks up; no header of it is
# needed, but its strings are those of the old ABI. eager.cpp needs the headers of the installed
# version: `python -m pto adapters build mindspore`.
pto_sources(sources adapters/mindspore)
list(FILTER sources EXCLUDE REGEX "/eager\\.cpp$")
if(sources)
  add_library(pto_mindspore SHARED ${sources})
  target_compile_definitions(pto_mindspore PRIVATE _GLIBCXX_USE_CXX11_ABI=0)
  target_link_libraries(pto_mindspore PRIVATE pto_flags pto)
  set_target_properties(pto_mindspore PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PTO_PACKAGE_DIR}/lib
                        BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$ORIGIN")
  install(TARGETS pto_mindspore LIBRARY DESTINATION pto/lib)
endif()
