# SPDX-License-Identifier: Apache-2.0
"""Python processes for tests, forked from one that has imported torch, which takes two seconds.

    done = children.run("-c", program, env=environment)   # as subprocess.run(..., text=True) gives

The arguments are Python's: -c PROGRAM, -m MODULE or a file. pto is imported by the child itself. A
test of the import of torch, of a variable that a library reads when it is loaded, or of another
Python starts a process of its own.
"""

import contextlib
import functools
import gc
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import types
from pathlib import Path

BYTES_MAX = 100_000  # of a request
SECONDS_MAX = 600  # of a child


class Origin:
    """The process that has imported torch; it ends with this one."""

    def __init__(self) -> None:
        self.channel, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.channel.settimeout(SECONDS_MAX)
        environment = {n: v for n, v in os.environ.items() if not n.startswith(("PTO_", "PYTEST"))}
        environment["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"  # else an installed pto reads them now
        self.process = subprocess.Popen(
            [sys.executable, __file__, str(its.fileno())], pass_fds=[its.fileno()],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=environment,
            start_new_session=True,
        )  # fmt: skip
        its.close()

    def run(self, request: dict, output: int, errors: int) -> int:
        message = json.dumps(request).encode()
        assert len(message) < BYTES_MAX
        socket.send_fds(self.channel, [message], [output, errors])
        try:
            answer = self.channel.recv(BYTES_MAX)
        except TimeoutError:  # a later request must not read this child's answer
            os.killpg(self.process.pid, signal.SIGKILL)
            _origin.cache_clear()
            raise
        assert answer, "the process that forks children has ended"
        return json.loads(answer)


@functools.cache
def _origin(process: int) -> Origin:  # of a process, since a forked one must not share it
    return Origin()


def run(*arguments, env=None, cwd=None) -> subprocess.CompletedProcess:
    words = [os.fspath(a) for a in arguments]
    environment = dict(os.environ if env is None else env)
    request = {"arguments": words, "env": environment, "cwd": os.fspath(cwd or Path.cwd())}
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        code = _origin(os.getpid()).run(request, output.fileno(), errors.fileno())
        for file in (output, errors):
            file.seek(0)
        return subprocess.CompletedProcess(words, code, output.read(), errors.read())


def _next_request(channel: socket.socket) -> dict:
    """Serves requests until it is the child of one; returns that one."""
    while True:
        message, files, _, _ = socket.recv_fds(channel, BYTES_MAX, 2)
        if not message:
            os._exit(0)
        child = os.fork()
        if child == 0:
            for standard, file in enumerate(files, 1):
                os.dup2(file, standard)
                os.close(file)
            channel.close()
            return json.loads(message)
        for file in files:
            os.close(file)
        _, status = os.waitpid(child, 0)
        channel.send(json.dumps(os.waitstatus_to_exitcode(status)).encode())


def _become(request: dict, path: list[str]) -> None:
    """Runs the program of the request as the main one of this process."""
    kind, *rest = request["arguments"]
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    before = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:] = ["", *filter(None, before), *path]
    if kind == "-m":
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif kind == "-c":
        sys.argv = ["-c", *rest[1:]]
        sys.modules["__main__"] = main = types.ModuleType("__main__")
        exec(compile(rest[0], "<string>", "exec"), vars(main))
    else:
        sys.path[0], sys.argv = str(Path(kind).parent), [kind, *rest]
        runpy.run_path(kind, run_name="__main__")


if __name__ == "__main__":
    PATH = [p for p in sys.path[1:] if p not in os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    with contextlib.suppress(ImportError):  # another framework's environment
        import torch.fx.experimental.symbolic_shapes  # noqa: F401 takes a second of pto.torch's

    gc.collect()
    gc.freeze()  # a child's searches for garbage, also at its end, pass torch's objects over
    _become(_next_request(socket.socket(fileno=int(sys.argv[1]))), PATH)
