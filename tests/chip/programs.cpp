// SPDX-License-Identifier: Apache-2.0
// Programs of test_runtime_chip.py: the run's first scalar chooses one. All tensors are int64.
#include <pto/runtime.h>

namespace {

using pto::Orchestration;
using pto::View;

// A view as eight numbers say: array, rows from, to, step, columns from, to, step, transposed.
View view_of(Orchestration& o, const int64_t* row) {
  View view = o.inout(int(row[0]) + 1).slice(0, row[1], row[2], row[3]);
  view = view.slice(1, row[4], row[5], row[6]);
  return row[7] ? view.transpose(0, 1) : view;
}

// Argument 0: a table of tasks; the rest: what they work on. See random_program() in the test.
void table(Orchestration& o) {
  const View tasks = o.input(0);
  o.wait(tasks);
  const int64_t* row = static_cast<const int64_t*>(tasks.raw().data);
  for (int64_t i = 0; i < tasks.shape()[0]; ++i, row += tasks.strides()[0]) {
    const View to = view_of(o, row + 2), from = view_of(o, row + 10);
    pto::TaskOptions options;
    View condition;
    if (row[18] >= 0) {
      condition = o.inout(int(row[18]) + 1)[0].slice(0, 0, 1);
      options.condition = &condition;
      options.compare = PTO_IF_GE;
    }
    const auto s = o.scalar(row[1]);
    if (row[0] == 0) o.submit("assign", {o.out(to), o.in(from), s}, options);
    if (row[0] == 1) o.submit("mix", {o.inout(to), o.in(from), s}, options);
    if (row[0] == 2) {  // by way of memory of the runtime's
      auto scope = o.scope();
      const View between = o.tensor(to.shape(), to.dtype());
      o.submit("assign", {o.out(between), o.in(from), s}, options);
      o.submit("mix", {o.inout(to), o.in(between), s}, options);
    }
  }
}

// Argument 0: zeros of 64; argument 1: rounds x width. Each round, `width` tasks write an element
// each, then one adds them all.
void fan_in(Orchestration& o) {
  const View sums = o.inout(0), elements = o.output(1);
  const int64_t rounds = elements.shape()[0], width = elements.shape()[1];
  for (int64_t r = 0; r < rounds; ++r) {
    const View row = elements[r];
    for (int64_t k = 0; k < width; ++k) {
      const View element = row.slice(0, k, k + 1);
      o.submit("assign", {o.out(element), o.in(sums.slice(0, r, r + 1)), o.scalar(k)});
    }
    o.submit("total", {o.inout(sums.slice(0, r, r + 1)), o.in(row)});
  }
}

// Argument 0: `width` elements; argument 1: zeros of any length. All of the former are written, and
// then each of the latter reads them all.
void fan_out(Orchestration& o) {
  const View elements = o.output(0), sums = o.inout(1);
  for (int64_t k = 0; k < elements.numel(); ++k) {
    const View element = elements.slice(0, k, k + 1);
    o.submit("assign", {o.out(element), o.in(sums.slice(0, 0, 1)), o.scalar(k)});
  }
  for (int64_t k = 0; k < sums.numel(); ++k)
    o.submit("total", {o.inout(sums.slice(0, k, k + 1)), o.in(elements)});
}

// Argument 0: a buffer of one element; argument 1: what it held at each step. A task overwrites
// what the one before reads.
void loop_carried(Orchestration& o) {
  const View buffer = o.inout(0), seen = o.output(1);
  for (int64_t k = 0; k < seen.numel(); ++k) {
    o.submit("assign", {o.out(seen.slice(0, k, k + 1)), o.in(buffer), o.scalar(0)});
    o.submit("assign", {o.out(buffer), o.in(seen.slice(0, k, k + 1)), o.scalar(1)});
  }
}

// Argument 0: a sum into which all elements of argument 1 are reduced.
void reduce(Orchestration& o) {
  const View sum = o.inout(0), elements = o.input(1);
  for (int64_t k = 0; k < elements.numel(); ++k)
    o.submit("total", {o.reduce(sum), o.in(elements.slice(0, k, k + 1))});
}

// Argument 0: read on the way, which waits for its writer; argument 1: a block an element;
// argument 2: written by a task that nothing orders but what it is told to follow.
void waits_and_blocks(Orchestration& o) {
  const View steps = o.inout(0), spread = o.output(1), last = o.inout(2);
  uint64_t step = 0;
  for (int64_t k = 0; k < 10; ++k) {
    const int64_t before = o.read<int64_t>(steps);
    if (before != k) throw std::runtime_error("read " + std::to_string(before));
    step = o.submit("assign", {o.out(steps), o.in(last), o.scalar(before + 1)});
  }
  pto::TaskOptions all, after;
  all.blocks = int32_t(spread.numel());
  after.after = {o.submit("blocks", {o.out(spread)}, all), o.submit(nullptr, {}), step};
  after.manual = true;
  o.submit("assign", {o.out(last), o.in(last), o.scalar(7)}, after);
}

// Argument 0: written before the failure, by one that depends on it, and by one that does not.
void failure(Orchestration& o, const char* kernel) {
  const View x = o.inout(0);
  const View first = x.slice(0, 0, 1), second = x.slice(0, 1, 2), third = x.slice(0, 2, 3);
  const View none = o.tensor({1}, x.dtype());
  o.submit("assign", {o.out(first), o.in(second), o.scalar(1)});
  o.submit(kernel, {o.out(none), o.in(first), o.scalar(0)});  // the failing line
  o.submit("mix", {o.inout(second), o.in(none), o.scalar(1)});
  o.submit("assign", {o.out(third), o.in(first), o.scalar(2)});
}

void chain_of_sleeps(Orchestration& o) {
  const View x = o.inout(0);
  for (int64_t k = 0; k < o.integer(1); ++k) {
    o.submit("sleeps", {o.inout(x), o.scalar(o.integer(2))});
    o.submit("mix", {o.inout(x), o.in(x), o.scalar(k)});
  }
}

void all_scalars(Orchestration& o) {
  o.submit("scalars", {o.out(o.output(0)), o.scalar(o.integer(1)), o.scalar(o.number(2)),
                       o.scalar(o.number(3))});
}

}  // namespace

extern "C" int32_t pto_orchestrate(const pto_runtime_api* rt, const pto_args* args) {
  Orchestration o(rt, args);
  switch (o.integer(0)) {
    case 0:
      table(o);
      return 0;
    case 1:
      fan_in(o);
      return 0;
    case 2:
      fan_out(o);
      return 0;
    case 3:
      loop_carried(o);
      return 0;
    case 4:
      reduce(o);
      return 0;
    case 5:
      waits_and_blocks(o);
      return 0;
    case 6:
      failure(o, "fails");
      return 0;
    case 7:
      failure(o, "throws");
      return 0;
    case 8:
      chain_of_sleeps(o);
      return 0;
    case 9:
      all_scalars(o);
      return 0;
    case 10:  // raises after it has submitted
      failure(o, "mix");
      throw std::runtime_error("thrown by the orchestration");
    case 11:
      o.submit("no such kernel", {});
      return 0;
    case 12:
      o.submit("assign", {o.out(o.input(0)), o.in(o.input(0)), o.scalar(0)});
      return 0;
    case 13:
      o.input(7);
      return 0;
    case 14:
      o.integer(7);
      return 0;
    case 17:
      throw 17;
    case 16: {  // scalars 1 and 2 as expressions, 3 as a number
      const auto n = o.symbol(1);
      const auto scale = o.symbol<double>(2) / (n + 1);
      o.submit("scalars", {o.out(o.output(0)), o.scalar(min(n * 2, 64)), o.scalar(scale),
                           o.scalar(100 / n), o.scalar(o.integer(3))});
      return 0;
    }
    default:
      return 5;
  }
}
