# SPDX-License-Identifier: Apache-2.0
"""A process ends well while daemon threads are inside our calls, whichever these are."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
CHIP = """
ORCHESTRATION = '''
#include <pto/runtime.h>
extern "C" int32_t pto_orchestrate(const pto_runtime_api* rt, const pto_args* a) {
  pto::Orchestration o(rt, a);
  const auto x = o.inout(0);
  for (int i = 0; i < 20; ++i) o.submit("sleep", {o.inout(x)});
  return 0;
}
'''
KERNELS = '''
#include <pto/pto-inst.hpp>
#include <ctime>
__global__ __aicore__ void Sleep(__gm__ float* x) {
  const timespec time{0, 20000};
  nanosleep(&time, nullptr);
  x[0] += 1;
}
PTO_KERNEL(sleep, Sleep)
'''
package = pto.compile(orch=ORCHESTRATION, kernels=[{"source": KERNELS, "symbol": "sleep"}])
rt = pto.Runtime()
rt.register("it", pkg=package)
args = [pto.Arg.inout(np.zeros(4, "f4"))]
"""
HOST = f"""
source = {str(TESTS / "host" / "kernels.cpp")!r}
kernels = {{"sleeps": pto.compile(kernels=[{{"source": source, "symbol": "sleeps"}}])}}
rt = pto.Runtime(level="host", devices=[0], memory=1 << 20)
def orch(ctx, args):
    x = ctx.alloc((4,))
    for _ in range(5):
        ctx.submit(ctx.peers()[0], "sleeps", [pto.Arg.inout(x), pto.Arg.scalar(1)])
    ctx.wait(x)
rt.register("it", orch=orch, kernels=kernels)
"""
# What a call needs, and the call: most are short, so that they return while the process ends.
CALLS = {
    "compiled function": ("@pto.jit\ndef scaled(x): return x * 2 + 1\nscaled(x)", "scaled(x)"),
    "operator": ("pto.ops.gelu(x)", "pto.ops.gelu(x)"),
    "run": (CHIP, "rt.run('it', args=args)"),
    "run with a deadline": (CHIP, "rt.run('it', args=args, deadline=60)"),
    "check": (CHIP, "rt.check('it', args)"),
    "run at level host": (HOST, "rt.run('it', None)"),
    "endless run at level host": (HOST.replace("scalar(1)", "scalar(10**6)"), "rt.run('it', None)"),
    "endless orchestration": (
        HOST.replace("ctx.wait(x)", "while True: pass"),
        "rt.run('it', None)",
    ),
    "compilation": (
        "from itertools import count\nnumber = count()",
        "pto.compile(kernels=[{'source': '#include <pto/pto-inst.hpp>\\n'"
        " '__global__ __aicore__ void Set(__gm__ float* x) { x[0] = %d; }\\n'"
        " 'PTO_KERNEL(set, Set)' % next(number), 'symbol': 'set'}])",
    ),
    "compilation of a graph": (
        "from itertools import count\nnumber = count()\n"
        "def made(k):\n    @pto.jit\n    def one(x): return x * float(k) + k\n    return one",
        "made(next(number))(x)",
    ),
}


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("call", CALLS)
def test_a_daemon_thread_in_a_call_does_not_end_the_process_with_an_abort(
    call, threads, tmp_path, monkeypatch
):
    if call.startswith("compilation"):
        monkeypatch.setenv("PTO_CACHE_DIR", str(tmp_path / "cache"))
    needs, text = CALLS[call]
    program = f"""
import threading, time, numpy as np, pto
x = np.ones(1 << 20, "f4")
{needs}
failed = []
def work():
    begun.set()
    try:
        while True: {text}
    except Exception as error:  # when Python ends, runtimes are closed
        failed.append(error)
for _ in range({threads}):
    begun = threading.Event()
    threading.Thread(target=work, daemon=True).start()
    begun.wait()
time.sleep(0.1)
print("end", failed)
"""
    file = tmp_path / "program.py"
    file.write_text(textwrap.dedent(program))
    done = subprocess.run([sys.executable, file], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "end []\n"), done.stderr
