# SPDX-License-Identifier: Apache-2.0
"""The compiled core of pto. Use the names of `pto`, not these.

Element types and operations are names ("f32", "exp"), shapes sequences of int and Dim, values of a
GraphBuilder the numbers of its nodes. What goes wrong is a class of pto.errors.
"""

from collections import abc
from collections.abc import Sequence
from typing import Any

# The limits of abi/limits.h.
MAX_RANK: int
MAX_TENSORS: int
MAX_ARGUMENTS: int
MAX_OUTPUTS: int

class Dim:
    """A size known at the call: s0, or an expression over such sizes."""

    @staticmethod
    def symbol(index: int) -> Dim: ...
    def __add__(self, other: Size, /) -> Size: ...
    def __radd__(self, other: Size, /) -> Size: ...
    def __sub__(self, other: Size, /) -> Size: ...
    def __rsub__(self, other: Size, /) -> Size: ...
    def __mul__(self, other: Size, /) -> Size: ...
    def __rmul__(self, other: Size, /) -> Size: ...
    def broadcast(self, other: Size, /) -> Size:
        """The size to which both broadcast."""

    def min(self, other: Size, /) -> Size: ...
    def max(self, other: Size, /) -> Size: ...
    def __floordiv__(self, other: Size, /) -> Size: ...
    def __rfloordiv__(self, other: Size, /) -> Size: ...
    def __mod__(self, other: Size, /) -> Size: ...
    def __rmod__(self, other: Size, /) -> Size: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __repr__(self) -> str: ...
    def same(self, other: Size, /) -> bool:
        """Structural equality, never an error."""

    def evaluate(self, symbols: Sequence[int]) -> int: ...
    @property
    def op(self) -> int:
        """0 constant, 1 symbol, 2 +, 3 -, 4 *, 5 //, 6 %, 7 min, 8 max, 9 broadcast."""

    @property
    def value(self) -> int:
        """The value of a constant, or the index of a symbol."""

    @property
    def left(self) -> Size: ...
    @property
    def right(self) -> Size: ...

Size = int | Dim
Shape = Sequence[Size]
Stages = abc.Callable[[str, str], object]

class GraphBuilder:
    """Builds a Graph; values are numbers of nodes."""

    def __init__(self, name: str) -> None: ...
    def set_location(self, file: str, line: int, /) -> None: ...
    def clear_location(self) -> None: ...
    def let_sizes_be_one(self) -> None:
        """Symbols may be 1 too: broadcasting gives broadcast(a, b). For shapes only."""

    @property
    def sizes_may_be_one(self) -> bool: ...
    def input(self, name: str, dtype: str, shape: Shape, /) -> int: ...
    def scalar(self, name: str, dtype: str, /) -> int: ...
    def constant(self, value: float, dtype: str) -> int: ...
    def unary(self, op: str, a: int, /) -> int: ...
    def binary(self, op: str, a: int, b: int, /) -> int: ...
    def where(self, condition: int, a: int, b: int, /) -> int: ...
    def cast(self, a: int, dtype: str, /) -> int: ...
    def reduce(self, op: str, a: int, axes: Sequence[int], /) -> int: ...
    def broadcast(self, a: int, shape: Shape, /) -> int: ...
    def reshape(self, a: int, shape: Shape, /) -> int: ...
    def iota(self, shape: Shape, axis: int, /) -> int: ...
    def along(self, op: str, operands: Sequence[int], axis: int, /) -> int:
        """gather, scatter, scatter_add or a scan along an axis, which counts from 0."""

    def sort(self, op: str, a: int, /) -> int:
        """sort or sort_descending; result 1 is the positions."""

    def type(self, value: int, /) -> tuple[str, tuple[Size, ...]]:
        """(dtype, shape)"""

    def node(self, value: int, /) -> tuple[str, list[int], list[int]]:
        """(operation, operands, axes)"""

    def number(self, value: int, /) -> float | int:
        """The value of a constant."""

    def bodies(self, value: int, /) -> list[Graph]:
        """Of a loop, repeat or branch."""

    def index(self, value: int, /) -> int:
        """Of a result."""

    def location(self, value: int, /) -> str:
        """The user's line, "file.py:12"."""

    def inline(self, body: Graph, inputs: list[int], free_symbol: int, /) -> tuple[list[int], int]:
        """(outputs, the next free symbol) of a graph's nodes, recorded here."""

    def inline_tile(self, body: Graph, operands: list[int], /) -> int:
        """The result of a tile operation's body on operands of one shape."""

    def tile(self, name: str, operands: list[int], body: Graph | None) -> int:
        """A user's operation of elements."""

    def name(self, value: int, /) -> str:
        """Of a parameter or a tile operation."""

    def guard_equal(self, a: Size, b: Size, because: str, /) -> None: ...
    def guard_nonempty(self, size: Size, because: str, /) -> None: ...
    def guard_holds(self, count: Size, because: str, /) -> None: ...
    def output(self, value: int, /) -> None: ...
    def build(self) -> Graph:
        """The graph; the builder is spent."""

class Graph:
    """An immutable program over tensors; str() gives its text."""

    @staticmethod
    def parse(text: str) -> Graph: ...
    def __str__(self) -> str: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def verify(self) -> None: ...
    def dot(self) -> str:
        """Graphviz's text of a picture: pto/language/pictures.py adds these."""

    def svg(self) -> str: ...
    def _repr_html_(self) -> str: ...
    def with_hints(self, hints: Sequence[tuple[str, Sequence[int], str]]) -> Graph:
        """The graph whose nodes have these hints where they have none of the name."""

    def map_batch(self, one: Graph, has_batch: Sequence[bool], batch: Dim) -> list[bool] | None:
        """Whether this is the graph `one` for each element of a batch, which the inputs marked in
        `has_batch` have in front: None, or which outputs have it."""

    @property
    def name(self) -> str: ...
    @property
    def inputs(self) -> list[tuple[str, str, tuple[Size, ...], bool]]:
        """(name, dtype, shape, is_scalar) of each."""

    @property
    def output_values(self) -> list[int]:
        """The node of each output."""

    @property
    def outputs(self) -> list[tuple[str, tuple[Size, ...]]]:
        """(dtype, shape) of each."""

    @property
    def origins(self) -> list[tuple[str, str]]:
        """(operation, user's line) that make each output."""

    @property
    def guards(self) -> list:
        """(a, b, because): sizes that must be equal at the call."""

def operations() -> list:
    """(name, mnemonic, family, arity, NumPy expression, element types) of every operation."""

class ElementType:
    """A row of abi/dtypes.def."""

    @property
    def name(self) -> str: ...
    @property
    def numpy(self) -> str:
        """The name in NumPy and in the frameworks."""
    @property
    def cpp(self) -> str:
        """The C++ type in kernels."""
    @property
    def kind(self) -> str:
        """bool, signed, unsigned or float."""
    @property
    def code(self) -> int:
        """DLPack's."""
    @property
    def bytes(self) -> int: ...

def dtypes() -> list[ElementType]:
    """Every element type, in the order of abi/dtypes.def."""

def interpret(graph: Graph, inputs: list, operations: int = ..., elements: int = ...) -> list:
    """The outputs' values by definition; pto.interpret takes arrays."""

def interpret_with_bounds(graph: Graph, inputs: list) -> list:
    """As interpret, with how far compiled code may be off, an element."""

class Stepper:
    """The interpreter on a graph that is still being built, behind its inputs."""

    def __init__(self, builder: GraphBuilder, inputs: list) -> None: ...
    def value(self, value: int) -> tuple:
        """The value of a node, as interpret() gives outputs; computes all in front of it."""

    def size(self, size: Size) -> int: ...

def define_tile_operation(
    name: str, parameters: list[str], text: str, file: str, line: int,
    tolerance: dict[str, float], values: abc.Callable[[list[bytes]], bytes],
) -> None:  # fmt: skip
    """A tile operation in C++: `tolerance` by the name of an element type; `values` takes a list of
    the bytes of doubles, one for each parameter."""

def first_difference(want: tuple, got: tuple, bounds: bytes | None = None) -> int | None:
    """The first element whose bits differ, or that lies outside its bound; or None. Both have one
    type and shape."""

def shrink(graph: Graph, fails: abc.Callable[[Graph], bool]) -> Graph:
    """A smaller graph for which fails(graph) still holds: see ir/random_graph.hpp."""

class Program:
    """A compiled graph."""

    @property
    def name(self) -> str: ...
    @property
    def inputs(self) -> list:
        """(name, dtype, shape) of each."""

    @property
    def outputs(self) -> list: ...
    @property
    def temporaries(self) -> list: ...
    @property
    def launches(self) -> int: ...

def compile(
    graph: Graph,
    strides: Sequence[int] = (),
    dump: Stages | None = None,
    disabled: Sequence[str] = (),
    target: str = "",
    writes: Sequence[int] = (),
    is_recorded: bool = False,
) -> Program:
    """The program of a graph; `strides` has a stride class for each tensor input; `writes` for each
    output the input that becomes it, or -1. `dump(stage, text)` sees every stage. `is_recorded`:
    its statements tell a Recording when they run. Python's lock is free meanwhile, and Ctrl-C stops
    the compiler."""

def seal(
    graph: Graph,
    strides: Sequence[int],
    writes: Sequence[int],
    target: str,
    text: str,
    numbers: list[int | float | None],
) -> tuple[str, bytes]:
    """(target, the program of a graph as bytes), as compile() makes it; `numbers` has for each
    parameter that is a number the value to which it is fixed, or None. The target may be that of
    another CPU."""

def seal_text(
    text: str,
    function: str,
    inputs: list,
    outputs: list,
    tensors: Sequence[int],
    guards: list,
    items: int | Dim,
    bytes: int | Dim,
    target: str,
    call: str,
    numbers: list,
) -> tuple[str, bytes]:
    """seal() of a program that is one launch of a function of a C++ text. `inputs` and `outputs`
    have (name, dtype, shape); `tensors` are the places among them that the kernel gets, -1 for an
    absent one."""

class ProgramPackage:
    """The loaded programs of a package."""

    def __init__(self, shown: str, payload: bytes) -> None: ...
    @property
    def shown(self) -> str:
        """The name of the file."""

    @property
    def texts(self) -> list[str]:
        """The call that each program serves."""

    @property
    def targets(self) -> list[str]:
        """The instructions that the code of each program uses."""

    def choose(self, tensors: list, among: Sequence[int]) -> int | None:
        """The number of the program, `among` these, for (dtype, shape, stride class) of the
        tensors, or None."""

    def program(self, number: int, /) -> Program: ...

class Stop:
    """Ends compilations of other threads."""

    def __init__(self) -> None: ...
    def set(self) -> None:
        """Ends what run() waits for, now and from now on."""

    def run(self, job: Callable[..., Any], *args: Any) -> Any:
        """The result of job(*args), whose compilations end at set()."""

class ExtensionBuild:
    """The library of C++ files against another package's headers."""

    def __init__(
        self,
        name: str,
        files: Sequence[str],
        identity: Sequence[str],
        options: Sequence[str],
        folders: Sequence[str],
        links: Sequence[str],
        folder: str,
        is_apart: bool = False,
    ) -> None:
        """`identity`, `options` and the text of the files decide the name in `folder`.

        `is_apart`: each file is compiled by itself, in less memory.
        """

    @property
    def path(self) -> str:
        """Where the library lies, or will."""

    @property
    def is_there(self) -> bool:
        """Whether it lies there, whole."""

    def run(self, again: bool = False) -> str:
        """Builds it unless it is there, or again, and returns its path. Python's lock is free
        meanwhile, and Ctrl-C stops the compiler."""

def cache_directory() -> str:
    """The folder of compiled kernels, as an absolute path."""

def passes() -> list[tuple[str, bool, str]]:
    """(name, whether it cuts sums in parts, reason of its place) of each pass in order."""

def explain(
    graph: Graph,
    dump: Stages,
    strides: Sequence[int] = (),
    disabled: Sequence[str] = (),
    target: str = "",
) -> dict[str, Any]:
    """Calls dump(stage, text) for every stage, compiles nothing, and returns what the program does:
    the steps, the memory and the copies of codegen/outline.hpp."""

def loop_conflict(body: Graph, step: int) -> tuple[str, str] | None:
    """(why, line) where iterations of a loop with this body, so far apart, write one place for
    certain, else None."""

def nodes_of(graph: Graph) -> list[dict[str, Any]]:
    """Each node of a graph, as a dict."""

class Recording:
    """When the statements of one call ran."""

    def __init__(self, statements: int, capacity: int) -> None:
        """`capacity`: spans that a thread keeps."""

    @property
    def threads(self) -> int:
        """That the call might use."""

    def start(self) -> None:
        """Records the calls of this thread from now on."""

    def stop(self) -> None: ...
    def lanes(self) -> list[tuple[list[tuple], list[tuple[int, int, int]], int]]:
        """Of each thread, the caller's first: spans (kind, statement, trip, depth, start, end),
        totals (calls, ns, longest ns) of the statements, and how many spans had no room. Kinds: 0
        call, 1 statement, 2 job, 3 part. Times are ns since the call began."""

    def write(
        self, path: str, process: str, names: Sequence[str], about: Sequence[str], other: str = ""
    ) -> None:
        """Writes the file for Perfetto. `names` and `about`, members of a JSON object, have an
        entry for each statement and one for the call; `other` are members of otherData."""

def describe_machine() -> str:
    """This machine's features and the cut-offs derived from them, one a line."""

def move_flags() -> str:
    """The flags without which the compiler of kernels writes wrong moves."""

def target_flags() -> str:
    """The compiler flags of this machine's target, or of PTO_TARGET's."""

def num_threads() -> int:
    """Threads that a launch of this thread may use."""

def set_num_threads(threads: int) -> None:
    """At least 1, at most the cores."""

def memory_stats() -> dict[str, int]:
    """Bytes of the recycling allocator; see launch/memory.hpp."""

def reset_peak_live_bytes() -> None: ...
def set_weight_check(name: str) -> None:
    """sampled, compared, never or trusted; see operators/weights.hpp."""

def exchange_thread_weight_check(name: str | None) -> str | None:
    """Sets the check of this thread alone, None: that of the process; returns the one before."""

def weight_check() -> str: ...
def forget_weights(address: int, bytes: int) -> int:
    """Forgets the packed copies of weights that begin in this memory; returns how many."""

def packed_weight_bytes() -> int:
    """Bytes of the packed copies of weights that live."""

def count_packed_weight(bytes: int) -> None:
    """Counts the bytes of a weight that a caller keeps packed; negative ones when it is freed."""

def set_matmul_precision(name: str) -> bool:
    """highest, high or medium; see abi/precision.h. False: another name."""

def matmul_precision() -> str: ...
def matmul_layout(dtype: str, precision: str = ...) -> str:
    """
    How a weight of this type is packed, at this precision or the present one; "": it is not.
    """

def way_of_floats() -> str:
    """How operators multiply f32 at this precision."""

def has_matmul_tiles() -> bool:
    """Says whether this CPU has AMX."""

def release_cached() -> None:
    """Gives unused memory back to the system."""

class Callable:
    """A callable whose calls are bound and run in C++: those of a function under @pto.jit, or those
    of an operator on NumPy arrays and arrays of any library with DLPack.

    For a function subclasses define `specialise(tensors, constants, numbers)`,
    `call_in_library(*args, **kwargs)`, `call_interpreted(*args, **kwargs)` and, for methods,
    `state(object)`; for an operator `call_otherwise(*args, **kwargs)`."""

    def bind_function(
        self,
        name: str,
        parameters: tuple[str, ...],
        defaults: tuple,
        policy: Any,
        takes_object: bool = False,
        in_any_mode: bool = False,
        /,
    ) -> None:
        """Takes calls with these parameters. The first may be the object of a method: a constant,
        of which state(object) is the key. With `in_any_mode` tensors of PyTorch that lie in memory
        never go to call_in_library(), whatever mode is active."""
    def bind_schema(self, index: int, policy: Any, /) -> None:
        """Takes calls of this operator of the registry."""
    def __call__(self, /, *args: Any, **kwargs: Any) -> Any: ...
    def describe_call(self, /, *args: Any, **kwargs: Any) -> tuple[list, list, list]:
        """(tensors, constants, numbers): for each parameter (dtype, shape, stride class) or None,
        its value, and whether that is a number of the call."""

    def bound_call(self, /, *args: Any, **kwargs: Any) -> object | None:
        """The call to be made again on other memory, a capsule of abi/bound_call.h; None where a
        call is more than one run of a program."""

    def forget_kernels(self) -> None:
        """The next calls compile anew; calls in progress keep their kernels."""

def set_torch_resizer(function: int) -> None: ...
def set_torch_weight_owner(function: int) -> None:
    """Tells the owner of a tensor's memory: see bindings/weight_owners.hpp."""

def set_torch_reader(function: int) -> None:
    """Reads tensors of PyTorch: see bindings/argument.hpp."""

def interprets_calls() -> bool: ...
def set_interprets_calls(yes: bool) -> None:
    """Lets calls of jitted functions go to call_interpreted()."""

def set_torch_executor(parallel_for: int, num_threads: int, is_plain: int = 0) -> None:
    """Addresses of C functions for calls on torch tensors: a loop (see launch/pool.hpp; 0: our
    pool), PyTorch's present number of threads (0: our own setting), and whether PyTorch would do no
    more with a call than run the kernel (0: always)."""

def parse_schema(schema: str, types: str = "") -> dict:
    """name, schema (signature: with names of outputs), arguments, outputs, n_returns, type_names
    and types."""

def respelled_schema(
    of: str, name: str, types: dict[int, str], appended: Sequence[str], returns: Sequence[str]
) -> str:
    """The schema with another name, other types by place, more keyword-only arguments, returns."""

def inplace_schema(of: str) -> str:
    """The schema of NAME_, which replaces the elements of NAME's first argument."""

def gradient_schema(
    of: str, differentiable: Sequence[int], saved: Sequence[int], wanted: Sequence[int]
) -> str:
    """The schema of NAME_backward, as abi/operator.h describes it."""

class OperatorDefinition:
    """A description for define_operator; operators/registry.hpp describes the members."""

    schema: str
    types: str
    document: str
    gradient_name: str
    saved: Sequence[int]
    wanted: Sequence[int]
    takes_strides: bool
    autocast: int
    bounded: str
    packing: Sequence[str]

    def set_gradient(self, gradient: OperatorDefinition) -> None:
        """Defines the gradient operator too, with the next index."""
    def set_native(self) -> None:
        """The kernel is written by hand."""

def define_operator(definition: OperatorDefinition) -> int:
    """Adds an operator and the gradient operators defined with it; returns the index."""

def free_operator_name(index: int) -> None:
    """Lets another operator have the name of one that no framework was told of."""

def announce_operators(index: int) -> None:
    """Tells the listeners of the operators from this index on, once they can be traced."""

def on_operator(listener: object, with_spaces: bool = False) -> None:
    """Calls listener(index) for every operator: those announced already and those to come; those
    called "space::name" only where asked for."""

def kernel_count() -> int:
    """How many kernels this process has compiled or loaded."""

def operator_count() -> int:
    """How many operators are defined."""

def operator_record(index: int) -> dict:
    """What parse_schema returns, and the operator's other facts as abi/operator.h has them."""

def gradient_plan(index: int, counts: Sequence[int], output_counts: Sequence[int]) -> tuple | None:
    """op, inputs, counts, outputs, members, places and all_needs of a pto_gradient_plan, or None
    for an operator without gradient."""

def set_operator_callbacks(trace: object, infer: object, source: object, find: object) -> None:
    """See bindings/operator_providers.hpp."""

def renew_operator(index: int) -> None:
    """Forgets the kernels and shapes of an operator whose definition was replaced."""

def keep_kernels(keep: object | None, targets: Sequence[str]) -> None:
    """keep(key, code) gets the code of each operator's kernel that is made, for these targets;
    None ends that."""

def trace_operator(index: int, tensors: list, attributes: list) -> Graph:
    """The graph of an operator for tensors of these (dtype, shape), None where absent, lists of
    them."""

class OperatorShapes:
    """Shapes of an operator's outputs for the dtypes and ranks of a call."""

    @property
    def outputs(self) -> list:
        """(dtype, shape) of each output, a list of them for a list; sizes are int or Dim, symbols
        as abi/operator.h numbers them."""

    def evaluate(self, symbols: Sequence, symbolic: object = None) -> list:
        """The outputs for these sizes. `symbolic` has min, max, broadcast and require_equal for
        sizes that are no int."""

def operator_shapes(index: int, tensors: list, attributes: list) -> OperatorShapes:
    """OperatorShapes for tensors of these (dtype, rank), None where absent, lists of them."""

def unequal_sizes(a: str, b: str, because: str, kind: int) -> tuple[str, str, str]:
    """What, why and fix of two sizes that differ."""

class CompiledFunctions:
    """The functions of one compiled source."""

    @property
    def name(self) -> str: ...
    @property
    def functions(self) -> list[str]: ...
    @property
    def target(self) -> str: ...
    @property
    def object(self) -> bytes:
        """The bytes of the shared object."""

class ChipProgram:
    """An orchestration with its kernels."""

    def __init__(
        self,
        orchestration: CompiledFunctions,
        kernels: Sequence[tuple[Sequence[str], CompiledFunctions, str]],
    ) -> None:
        """`kernels`: (names for submit, functions, symbol); errors tell the first name. The
        orchestration is the first function of its source."""

class ChipGraph:
    """A program captured on arguments: it runs nothing."""

    def __init__(self, program: ChipProgram, args: Sequence[tuple[int, Any, str]]) -> None: ...
    def replay(
        self,
        args: Sequence[tuple[int, Any, str]],
        workers: int = 0,
        trace_path: str = "",
        trace_level: int = -1,
    ) -> dict | None:
        """Runs it on arguments like those of the capture and reports counts, as run_chip does;
        else None."""
    @property
    def tasks(self) -> int: ...
    @property
    def edges(self) -> int: ...
    def nodes(self) -> tuple[list[tuple[str, str]], list[tuple[int, int]]]:
        """(kernel, site) of each task, and (earlier, later) of each edge."""
    @property
    def nbytes(self) -> int:
        """Memory of its own, for the tensors that the orchestration allocated."""

class ChipTrace:
    """The trace of one run."""

    @property
    def level(self) -> int: ...
    @property
    def dropped(self) -> int: ...
    def summary(self) -> dict:
        """The times of the run in nanoseconds, by cause."""

    def simulate(self, cores: Sequence[int]) -> list[tuple[int, int, int]]:
        """(duration, busy, critical path) in nanoseconds on each of these numbers of cores. The
        trace is of level 3."""

    def advice(self) -> tuple[int, list[tuple[str, str, int]]]:
        """The simulated duration, and (kind, text, duration with it) of each change that makes it
        shorter, the best first. The trace is of level 3."""

def compile_functions(
    name: str,
    text: str,
    functions: Sequence[str],
    target: str = "",
    orchestration: bool = False,
    object: bytes = b"",
    standard: str = "c++17",
    cache_directory: str = "",
) -> CompiledFunctions:
    """Compiles C++ text, or takes it from the cache; `object`: the bytes of another compiler's
    that belongs to it; `standard`: the language level; `cache_directory`: "" is that of the
    settings. Python's lock is free meanwhile."""

def load_functions(name: str, object: bytes, functions: Sequence[str]) -> CompiledFunctions:
    """The functions of a shared object's bytes."""

def check_chip(program: ChipProgram, args: Sequence[tuple[int, Any, str]]) -> dict:
    """Runs its tasks one after another and says what another order would do: races (task, task,
    access, access, bytes), surplus edges (task, task, implied), writes (task, kind, bytes). A task
    is (id, kernel, site), bytes are (memory, begin, end, count)."""

def run_chip(
    program: ChipProgram,
    args: Sequence[tuple[int, Any, str]],
    workers: int = 0,
    window: int = 4096,
    deadline: float = 0.0,
    trace_path: str = "",
    trace_level: int = -1,
) -> dict:
    """Runs it on (ParamType, array or number, dtype of a number) and reports counts. With a level
    "trace" is a ChipTrace, which is written to the path unless that is empty. Python's lock is
    free meanwhile. Where code has not returned soon after the deadline, its run is abandoned and
    goes on."""

def abandoned_runs() -> int:
    """Runs that were abandoned and have not returned yet."""

_Arguments = Sequence[tuple[int, Any, str]]

class HostEngine:
    """Devices as worker processes over shared memory."""

    def __init__(
        self,
        devices: Sequence[int],
        worker: Sequence[str],
        python_worker: Sequence[str],
        memory_bytes: int,
        threads: int = 0,
    ) -> None: ...
    def allocate(self, nbytes: int) -> Any:
        """Zeroed bytes that the workers see too; they live as long as the array."""
    def holds(self, address: int) -> bool: ...
    def add_program(self, program: ChipProgram, name: str) -> int: ...
    def add_kernel(self, functions: CompiledFunctions, symbol: str) -> int: ...
    def add_collective(self, name: str) -> int: ...
    def add_python(self, name: str, payload: bytes) -> int: ...
    def remove_program(self, program: int) -> None: ...
    def begin(self, deadline: float = 0.0, trace_path: str = "", trace_level: int = -1) -> int: ...
    def submit(
        self,
        program: int,
        name: str,
        members: Sequence[tuple[int, _Arguments]],
        after: Sequence[int],
        site: str,
    ) -> int:
        """`members`: (place of the device, arguments). Returns the task's id; 0, and submits
        nothing, if an array lies in memory that workers do not see."""
    def submit_gate(
        self, element: _Arguments, compare: int, value: float, after: Sequence[int], site: str
    ) -> int:
        """A task that is done when the comparison of the first element with the value holds."""
    def wait_task(self, task: int) -> bool: ...
    def wait_array(self, array: _Arguments) -> bool:
        """Waits for its writers; False if one has failed."""
    def is_done(self, task: int) -> bool: ...
    def has_succeeded(self, task: int) -> bool:
        """Says whether a task of the last run, once done, has not failed."""
    def end(self) -> dict:
        """Waits for all; raises TaskFailure."""
    def stop(self, text: str, kills: bool, run: int = 0) -> bool: ...
    def workers(self) -> list[tuple[int, int, int]]:
        """(place of the device, process, starts) of each."""
    def close(self) -> None: ...
    @property
    def is_running(self) -> bool: ...
    @property
    def taken_bytes(self) -> int: ...

class HostRecording:
    """The tasks of a captured run at level host."""

    def __init__(self, slots: Sequence[tuple[int, int]]) -> None:
        """`slots`: addresses, begin and end, that move from replay to replay."""
    def add(
        self,
        host: HostEngine,
        program: int,
        name: str,
        members: Sequence[tuple[int, _Arguments]],
        after: Sequence[int],
        site: str,
    ) -> int:
        """`after` counts the recording's tasks. Returns the task's number; -1 if an array lies
        in memory that workers do not see."""
    def add_gate(
        self,
        host: HostEngine,
        element: _Arguments,
        compare: int,
        value: float,
        after: Sequence[int],
        site: str,
    ) -> int: ...
    def submit(self, host: HostEngine, begins: Sequence[int]) -> None:
        """Submits all to a run that has begun; `begins`: where each slot lies now."""
    def nodes(self) -> tuple[list[tuple[str, str]], list[tuple[int, int]]]:
        """(name, site) of each task, and (earlier, later) of each edge that a run has."""
    @property
    def tasks(self) -> int: ...

def serve_python(
    parent: int, mailbox_bytes: int, heap_bytes: int, spin_us: int, load: object
) -> None:
    """The loop of a worker process that runs Python functions."""
