# SPDX-License-Identifier: Apache-2.0
"""Builds the operators as one extension: python setup.py build_ext --inplace"""

from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension

from pto import build_config

setup(
    name="my_ops",
    ext_modules=[
        CppExtension(
            "my_ops_library",
            ["my_ops.cpp", "my_conv.cpp", "autograd.cpp"],
            include_dirs=[build_config.compat_dir(), build_config.include_dir()],
            library_dirs=[build_config.library_dir()],
            runtime_library_dirs=[build_config.library_dir()],
            libraries=["pto"],
            extra_compile_args=["-O2", "-g0", *build_config.target_flags()],
        )
    ],
    cmdclass={"build_ext": BuildExtension.with_options(no_python_abi_suffix=True)},
)
