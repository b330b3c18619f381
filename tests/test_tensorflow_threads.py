# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's adapter runs launches on TensorFlow's threads; this needs no TensorFlow, whose
headers ask for C++17."""

import subprocess
from pathlib import Path

from pto import build_config

HERE = Path(__file__).resolve().parent


def test_launches_run_on_the_pool_of_tensorflow(tmp_path):
    header = tmp_path / "tensorflow/core/platform/threadpool.h"
    header.parent.mkdir(parents=True)
    header.write_text("")
    subprocess.run(
        ["g++", "-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{tmp_path}",
         f"-I{HERE.parent}", str(HERE / "tensorflow_threads.cpp"), "-o", str(tmp_path / "program"),
         *build_config.ldflags(), "-pthread"],
        check=True,
    )  # fmt: skip
    done = subprocess.run([tmp_path / "program"], capture_output=True, text=True, check=True)
    assert done.stdout == "code 0, 64 blocks once, helped\n"
