# SPDX-License-Identifier: Apache-2.0
"""Builds the custom operators: python setup.py build_ext --inplace

>>> import torch; torch.ops.load_library("hpu_custom_ops.so")
>>> torch.ops.custom_op.custom_topk(torch.randn(6, 6), 3, 1, False)
"""

from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension

from pto import build_config

setup(
    name="hpu_custom_ops",
    ext_modules=[
        CppExtension(
            "hpu_custom_ops",
            ["hpu_custom_relu.cpp", "hpu_custom_topk.cpp", "hpu_custom_add.cpp"],
            include_dirs=[build_config.compat_dir(), build_config.include_dir()],
            library_dirs=[build_config.library_dir()],
            runtime_library_dirs=[build_config.library_dir()],
            libraries=["pto"],
            extra_compile_args=["-O2", "-g0"],
        )
    ],
    cmdclass={"build_ext": BuildExtension.with_options(no_python_abi_suffix=True)},
)
