# SPDX-License-Identifier: Apache-2.0
"""Builds the add kernel as a PyTorch extension: python setup.py build_ext --inplace"""

from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension

from pto import build_config

setup(
    name="add_kernel",
    ext_modules=[
        CppExtension(
            "add_kernel",
            ["extension.cpp"],
            include_dirs=[build_config.include_dir()],
            library_dirs=[build_config.library_dir()],
            runtime_library_dirs=[build_config.library_dir()],
            libraries=["pto"],
            extra_compile_args=["-O2", "-g0", *build_config.target_flags()],
        )
    ],
    cmdclass={"build_ext": BuildExtension},
)
