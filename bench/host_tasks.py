# SPDX-License-Identifier: Apache-2.0
"""Tasks on worker processes: what one more costs, against Python's process pool and Ray.

A task adds two arrays of 16 floats in shared memory; competitors send such arrays, and get one
back. Level host is measured from C++ (host_tasks.cpp) and from a Python orchestration.
"""

import importlib.util
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np

import pto
from pto import build_config
from pto.bench.runner import Measurement

SOURCE = Path(__file__).with_suffix(".cpp")
WORKER = Path(pto.__file__).parent / "lib" / "pto_worker"
ROUNDS, TASKS = 11, 2000
ADD = """
#include <pto/pto-inst.hpp>
__global__ __aicore__ void add(__gm__ float* z, __gm__ const float* x, __gm__ const float* y) {
  for (int i = 0; i < 16; ++i) z[i] = x[i] + y[i];
}
PTO_KERNEL(add, add)
"""
ORCHESTRATION = """
#include <pto/runtime.h>
extern "C" int32_t pto_orchestrate(const pto_runtime_api* rt, const pto_args* a) {
  pto::Orchestration o(rt, a);
  o.submit("add", {o.out(o.output(0)), o.in(o.input(1)), o.in(o.input(2))});
  return 0;
}
"""


def run() -> list[Measurement]:
    """Measures and prints."""
    records = [*_from_cpp(), *_from_python()]
    for seconds, contender in ((_pool, "process pool"), (_ray, "ray")):
        if contender == "ray" and importlib.util.find_spec("ray") is None:
            print("ray is not installed: pip install ray", flush=True)
            continue
        records.append(_record("host_python", contender, seconds))
    return records


def _record(case: str, contender: str, rounds: Callable[[], list[float]]) -> Measurement:
    times = sorted(rounds())
    record = Measurement(case, [TASKS], "f32", contender, 1, times[len(times) // 2],
                    times[len(times) // 10], times[-1 - len(times) // 10], None)  # fmt: skip
    print(_line(record), flush=True)
    return record


def _line(record: Measurement) -> str:
    return (
        f"{record.case:18} {record.contender:14} {record.threads} workers "
        f"{record.median_s * 1e6:10.2f} us"
    )


def _from_cpp() -> list[Measurement]:
    records = []
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "host_tasks"
        flags = ["-std=c++20", "-O2", f"-I{build_config.include_dir()}", SOURCE]
        subprocess.run(["c++", *flags, "-o", program, *build_config.ldflags()], check=True)
        with subprocess.Popen([program, WORKER], stdout=subprocess.PIPE, text=True) as measuring:
            for text in measuring.stdout:
                records.append(Measurement(**json.loads(text)))
                print(_line(records[-1]), flush=True)
        if measuring.returncode:
            raise SystemExit("host_tasks.cpp: tasks were lost")
    return records


def _from_python() -> list[Measurement]:
    kernels = {
        "kernel": pto.compile(kernels=[{"source": ADD}]),
        "package": pto.compile(orch=ORCHESTRATION, kernels=[{"source": ADD}]),
    }
    with pto.Runtime(level="host", devices=[0]) as rt:
        x, z = rt.alloc((16,)), rt.alloc((16,))
        x.numpy()[...] = 1

        def many(ctx, name):
            for _ in range(TASKS):
                args = [pto.Arg.output(z), pto.Arg.input(x), pto.Arg.input(x)]
                ctx.submit(0, name, args)

        rt.register("many", orch=many, kernels=kernels)
        graph = rt.capture("many", "kernel")

        def rounds(work):
            def measured():
                taken = []
                for _ in range(ROUNDS):
                    z.numpy()[...] = 0
                    begin = time.perf_counter()
                    work()
                    taken.append((time.perf_counter() - begin) / TASKS)
                    assert (z.numpy() == 2).all()
                return taken

            return measured

        return [
            _record("host_python", "pto kernel", rounds(lambda: rt.run("many", "kernel"))),
            _record("host_python", "pto package", rounds(lambda: rt.run("many", "package"))),
            _record("host_python", "pto replay", rounds(lambda: graph.replay("kernel"))),
        ]


def _add(x, y):
    return x + y


def _pool() -> list[float]:
    x, taken = np.ones(16, np.float32), []
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        assert (pool.submit(_add, x, x).result() == 2).all()
        for _ in range(ROUNDS):
            begin = time.perf_counter()
            results = [pool.submit(_add, x, x) for _ in range(TASKS)]
            assert all((result.result() == 2).all() for result in results)
            taken.append((time.perf_counter() - begin) / TASKS)
    return taken


def _ray() -> list[float]:
    os.environ.setdefault("RAY_DEDUP_LOGS", "0")
    import ray

    x, taken = np.ones(16, np.float32), []
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
    try:
        add = ray.remote(_add)
        assert (ray.get(add.remote(x, x)) == 2).all()
        for _ in range(ROUNDS):
            begin = time.perf_counter()
            results = ray.get([add.remote(x, x) for _ in range(TASKS)])
            taken.append((time.perf_counter() - begin) / TASKS)
            assert all((result == 2).all() for result in results)
    finally:
        ray.shutdown()
    return taken
