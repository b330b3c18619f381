# SPDX-License-Identifier: Apache-2.0
"""Measures including the instructions: CPU time of the compiler at -O2, nothing precompiled.

`five`: a source that includes only pto/pto-inst.hpp and uses five instructions; at most 0.10 s.
`all`: one that uses every instruction of the tables once; at most 1 s.
"""

import os
import subprocess
import tempfile
from pathlib import Path

from bench import report
from pto import build_config
from pto.bench.runner import Measurement, Outcome, Setting
from pto.isa import table

ROUNDS = 10
GOALS = {"five": 0.10, "all": 1.0}

FIVE = """
#include <pto/pto-inst.hpp>
using namespace pto;
__global__ __aicore__ void kernel(__gm__ float* out, __gm__ const float* x, uint32_t n) {
  Tile<TileType::Vec, float, 16, 256> a, b;
  TLOAD(a, GlobalTensor(x, n));
  TEXP(b, a);
  TADD(b, a, b);
  TMULS(b, b, 2.0f);
  TSTORE(GlobalTensor(out, n), b);
}
"""

BEFORE = """
#include <pto/pto-inst.hpp>
using namespace pto;
template <class T, int Rows = 32, int Cols = 64>
using Block = Tile<TileType::Vec, T, Rows, Cols>;
template <class T, int Valid = 1>
using Column = Tile<TileType::Vec, T, 32, 8, BLayout::RowMajor, 32, Valid>;
template <class T>
using Row = Tile<TileType::Vec, T, 1, 64>;
template <class T>
using View = GlobalTensor<T, Shape<1, 1, 1, 32, 64>, Stride<1, 1, 1, 64, 1>>;
using Pipe = TPipe<0, DIR_C2V, 8192, 2>;
using Image = ConvTile<TileType::Mat, half, 2 * 8 * 8 * 16 * 2, Layout::NC1HWC0,
                       ConvTileShape<1, 2, 8, 8, 16>>;
__global__ __aicore__ void kernel(__gm__ float* memory, __gm__ int32_t* words) {
  Block<float> a, b, c, d;
  Block<int32_t> i, j, k, l;
  Block<uint32_t> places;
  Block<half> h;
  Block<int8_t> bytes;
  Block<uint8_t> codes;
  Column<float> column, found;
  Column<int32_t> where, other, third;
  Row<float> row;
  Row<uint32_t> row_places;
  Tile<TileType::Vec, uint8_t, 32, 32> mask;
  View<float> view(memory);
  View<int32_t> word_view(words);
  TileNz<TileType::Mat, float, 32, 64> chip;
  TileLeft<float, 32, 64> left;
  TileRight<float, 64, 32> right;
  TileAcc<float, 32, 32> acc;
  TileAcc<float, 32, 64> wide_acc;
  Tile<TileType::Bias, float, 1, 32> bias;
  Tile<TileType::Scaling, uint64_t, 1, 64> fp;
  Image image;
  Pipe pipe(nullptr, 0, 0);
"""

# Instructions that instructions.def does not make, by the families of forms.def.
STATEMENTS = {
    "TEXPANDS": "TEXPANDS(d, 1.0f);",
    "TROWEXPAND": "TROWEXPAND(d, column);",
    "TCOLEXPAND": "TCOLEXPAND(d, row);",
    "TCMP": "TCMP(mask, a, b, CmpMode::LT);",
    "TCMPS": "TCMPS(mask, a, 1.0f, CmpMode::GE);",
    "TSEL": "TSEL(d, mask, a, b);",
    "TSELS": "TSELS(d, mask, a, b, 1.0f);",
    "TCVT": "TCVT(h, a, RoundMode::CAST_RINT);",
    "TQUANT": "TQUANT<QuantType::INT8_SYM>(bytes, a, column);",
    "TDEQUANT": "TDEQUANT(d, bytes, column, column);",
    "TPAIRREDUCESUM": "TPAIRREDUCESUM(d, a);",
    "TROWARGMAX": "TROWARGMAX(where, a, b);",
    "TROWARGMIN": "TROWARGMIN(where, a, b);",
    "TCOLARGMAX": "Row<int32_t> at; TCOLARGMAX(at, a, b);",
    "TCOLARGMIN": "TCOLARGMIN(at, a, b);",
    "TPARTARGMAX": "TPARTARGMAX(d, a, b, i, j, k);",
    "TPARTARGMIN": "TPARTARGMIN(d, a, b, i, j, k);",
    "TPACK": "TPACK(h, a);",
    "TAXPY": "TAXPY(d, a, 2.0f);",
    "TADDSC": "TADDSC(d, a, 2.0f, b);",
    "TSUBSC": "TSUBSC(d, a, 2.0f, b);",
    "TADDDEQRELU": "TADDDEQRELU(h, i, j, 0.5f, k);",
    "TADDRELUCONV": "TADDRELUCONV(h, a, b);",
    "TSUBRELUCONV": "TSUBRELUCONV(h, a, b);",
    "TSORT32": "Tile<TileType::Vec, float, 1, 128> records; TSORT32(records, row, row_places);",
    "TMRGSORT": "Tile<TileType::Vec, float, 1, 256> sorted, merged; TMRGSORT(merged, sorted, 64);",
    "TLOAD": "TLOAD(a, view);",
    "TSTORE": "TSTORE(view, a);",
    "TSTORE_FP": "GlobalTensor<int8_t, Shape<1, 1, 1, 32, 64>, Stride<1, 1, 1, 64, 1>> "
    "narrow(reinterpret_cast<int8_t*>(memory)); TSTORE_FP(narrow, wide_acc, fp);",
    "TMATMUL": "TMATMUL(acc, left, right);",
    "TMATMUL_ACC": "TMATMUL_ACC(acc, left, right);",
    "TMATMUL_BIAS": "TMATMUL_BIAS(acc, left, right, bias);",
    "TMATMUL_MX": "TileLeft<float8_e4m3_t, 32, 64> mx_left; TileRight<float8_e4m3_t, 64, 32> "
    "mx_right; TileLeftScale<float8_e8m0_t, 32, 2> left_scale; TileRightScale<float8_e8m0_t, 2, "
    "32> right_scale; TMATMUL_MX(acc, mx_left, left_scale, mx_right, right_scale);",
    "TGEMV": "TileLeft<float, 1, 64> vector; TileAcc<float, 1, 32> line; "
    "TGEMV(line, vector, right);",
    "TGEMV_ACC": "TGEMV_ACC(line, vector, right);",
    "TGEMV_BIAS": "TGEMV_BIAS(line, vector, right, bias);",
    "TGEMV_MX": "TileLeft<float8_e4m3_t, 1, 64> mx_vector; TileLeftScale<float8_e8m0_t, 1, 2> "
    "vector_scale; TGEMV_MX(line, mx_vector, vector_scale, mx_right, right_scale);",
    "TGATHER": "TGATHER(d, a, i, b);",
    "TGATHERB": "Column<uint32_t, 8> offsets; TGATHERB(d, a, offsets);",
    "TSCATTER": "TSCATTER(d, a, i);",
    "TMOV": "TMOV(left, chip);",
    "TMOV_FP": "TMOV_FP(bytes, wide_acc, fp);",
    "TEXTRACT": "TEXTRACT(left, chip, 0, 0);",
    "TEXTRACT_FP": "TEXTRACT_FP(bytes, wide_acc, fp, 0, 0);",
    "TINSERT": "TINSERT(chip, a, 0, 0);",
    "TINSERT_FP": "TINSERT_FP(bytes, wide_acc, fp, 0, 0);",
    "TTRANS": "Block<float, 64, 32> turned; TTRANS(turned, a, b);",
    "TFILLPAD": "Tile<TileType::Vec, float, 32, 64, BLayout::RowMajor, 32, 64, SLayout::NoneBox, "
    "512, PadValue::Zero> padded; TFILLPAD(padded, a);",
    "TFILLPAD_INPLACE": "TFILLPAD_INPLACE(padded, a);",
    "TFILLPAD_EXPAND": "TFILLPAD_EXPAND(padded, a);",
    "TSUBVIEW": "Block<float, 16, 64> window; TSUBVIEW(window, a, 4, 0);",
    "TRESHAPE": "Block<float, 16, 128> reshaped; TRESHAPE(reshaped, a);",
    "TGET_SCALE_ADDR": "TGET_SCALE_ADDR(left_scale, mx_left);",
    "MGATHER": "MGATHER<Coalesce::Elem>(d, view, i);",
    "MSCATTER": "MSCATTER<Coalesce::Elem>(view, a, i);",
    "TCI": "TCI<decltype(row_places), uint32_t, 0>(row_places, 0);",
    "TTRI": "TTRI<decltype(d), 0>(d, 0);",
    "TRANDOM": "TRandomKey key = {}; TRandomCounter counter = {}; TRANDOM(places, key, counter);",
    "THISTOGRAM": "Block<uint16_t> samples; Block<uint32_t, 32, 256> counts; "
    "Tile<TileType::Vec, uint8_t, 32, 32> group; "
    "THISTOGRAM<HistByte::BYTE_1>(counts, samples, group);",
    "TCONCAT": "Block<float, 32, 128> both; TCONCAT(both, a, b);",
    "TINTERLEAVE": "TINTERLEAVE(c, d, a, b);",
    "TDEINTERLEAVE": "TDEINTERLEAVE(c, d, a, b);",
    "TPRINT": "TPRINT(a);",
    "TPREFETCH": "TPREFETCH(a, view);",
    "TPREFETCH_ASYNC": "PrefetchAsyncContext context; TPREFETCH_ASYNC(view, context);",
    "TIMG2COL": "TileLeft<half, 64, 32> pixels; TIMG2COL(pixels, image);",
    "SETFMATRIX": "SETFMATRIX(image);",
    "SET_IMG2COL_RPT": "SET_IMG2COL_RPT(image);",
    "SET_IMG2COL_PADDING": "SET_IMG2COL_PADDING(image);",
    "TASSIGN": "TASSIGN(c, 0);",
    "TSYNC": "TSYNC<Op::TLOAD>();",
    "SYNCALL": "SYNCALL<SyncCoreType::AIVOnly>();",
    "TPUSH": "TPUSH<Pipe, decltype(acc), TILE_NO_SPLIT>(pipe, acc);",
    "TPOP": "Block<float, 32, 32> popped; TPOP<Pipe, decltype(popped), TILE_NO_SPLIT>(pipe, "
    "popped);",
    "TALLOC": "GlobalTensor<float, Shape<1, 1, 1, 32, 32>, Stride<1, 1, 1, 32, 1>> slot(memory); "
    "TALLOC<Pipe, decltype(slot), TILE_NO_SPLIT>(pipe, slot);",
    "TFREE": "TFREE<Pipe, TILE_NO_SPLIT>(pipe);",
    "SET_QUANT_SCALAR": "SET_QUANT_SCALAR<int8_t>(1.0f);",
    "SET_QUANT_VECTOR": "SET_QUANT_VECTOR(fp);",
    "TPUT": "comm::TPUT(view, view, a);",
    "TGET": "comm::TGET(view, view, a);",
    "TPUT_ASYNC": "comm::AsyncSession session; comm::TPUT_ASYNC(view, view, session);",
    "TGET_ASYNC": "comm::TGET_ASYNC(view, view, session);",
    "TNOTIFY": "comm::Signal signal(words); comm::TNOTIFY(signal, 1, comm::NotifyOp::Set);",
    "TWAIT": "comm::TWAIT(signal, 1, comm::WaitCmp::GE);",
    "TTEST": "words[0] = comm::TTEST(signal, 1, comm::WaitCmp::GE);",
    "TBROADCAST": "View<float> ranks[2] = {view, view}; auto ring = "
    "comm::ParallelGroup<View<float>>::Create(ranks, 2, 0); comm::TBROADCAST(ring, view, a);",
    "TREDUCE": "comm::TREDUCE(ring, view, a, b, comm::ReduceOp::Sum);",
}
ARGUMENTS = {"a": "a", "b": "b", "c": "c", "d": "d", "s": "a", "scalar": "2"}


def statement(form: table.Form) -> str:
    """One use of an instruction; value rows take float tiles, or int32_t ones."""
    if form.mnemonic in STATEMENTS:
        return STATEMENTS[form.mnemonic]
    real = "f32" in form.types
    name = dict(zip("abcd", "abcd" if real else "ijkl", strict=True))
    operands = [ARGUMENTS[o] for o in form.operands.split(", ")]
    if form.header == "expand.hpp":
        operands[2] = "column" if "TROW" in form.mnemonic else "row"
    if form.header == "reduce.hpp":
        operands = ["column", "a", "b"] if "TROW" in form.mnemonic else ["row", "a"]
    return f"{form.mnemonic}({', '.join(name.get(o, o) for o in operands)});"


def every_instruction() -> str:
    first = {form.mnemonic: form for form in reversed(table.forms())}
    lines = [statement(form) for form in reversed(first.values())]
    return BEFORE + "\n".join(lines) + "\nTSTORE(view, d);\nTSTORE(word_view, l);\n}\n"


def cpu_seconds(source: Path) -> float:
    before = os.times()
    flags = [*build_config.cxxflags(), "-c", source, "-o", source.with_suffix(".o")]
    subprocess.run(["g++", "-O2", "-w", *flags], check=True)
    after = os.times()
    return (
        after.children_user
        + after.children_system
        - (before.children_user + before.children_system)
    )


def run() -> list[Measurement]:
    """Compiles each source several times and prints; the ceiling of a record is its goal."""
    records = []
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (("five", FIVE), ("all", every_instruction())):
            source = Path(folder) / f"{name}.cpp"
            source.write_text(text)
            seconds = sorted(cpu_seconds(source) for _ in range(ROUNDS))
            setting = Setting((1,), "f32", 1)
            records.append(Measurement.of(f"compile_{name}", setting, "pto", seconds, GOALS[name]))
    for line, goal in zip(report.plain(Outcome(records)), GOALS.values(), strict=True):
        print(f"{line}  goal {goal} s", flush=True)
    return records
