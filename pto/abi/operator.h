// SPDX-License-Identifier: Apache-2.0
// Operators as plain C: a framework's adapter enumerates them, asks for shapes, and calls them.
//
//     for (int32_t i = 0; i < pto_operator_count(); ++i) declare(pto_operator_at(i));
//     const pto_shapes* shapes = pto_operator_shapes(&call);   // output sizes as expressions
//     if (pto_operator_run(&call) != 0) raise(pto_operator_error());
//
// define_operator.h defines an operator in C or C++.
//
// Invariant: only POD crosses this header. An operator is never removed; its index, its pointer
// and everything that it points to stay valid for the life of the process, and so do shapes.
// Thread safety: every function may be called from any thread.
#pragma once
#include <stdint.h>

#include "pto/abi/limits.h"
#include "pto/abi/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { PTO_OPERATOR_ABI_VERSION = 6 };

// Kinds of arguments: each names the type of a value and its field of pto_operator_value.
enum {
  PTO_KIND_TENSOR = 0,
  PTO_KIND_TENSOR_LIST = 1,
  PTO_KIND_INT = 2,      // integer; kernels are specialised on it, as on bool, str and int[]
  PTO_KIND_SYMINT = 3,   // integer; a number of the call, and in shapes a symbol
  PTO_KIND_FLOAT = 4,    // real; a number of the call
  PTO_KIND_BOOL = 5,     // integer, 0 or 1
  PTO_KIND_STRING = 6,   // text
  PTO_KIND_INT_LIST = 7  // integers
};

// Mixed precision (autocast) converts floating-point arguments: those of one type variable to the
// widest among them, or all to the low type of the region, or all to f32.
enum { PTO_AUTOCAST_WIDEST = 0, PTO_AUTOCAST_LOW = 1, PTO_AUTOCAST_F32 = 2 };

// Bits of pto_operator_argument::flags.
enum {
  PTO_ARGUMENT_KEYWORD_ONLY = 1,
  PTO_ARGUMENT_OPTIONAL = 2,  // "Tensor?", "int?": may be None
  PTO_ARGUMENT_MUTABLE = 4,   // "Tensor(a!)": an output replaces its elements
  PTO_ARGUMENT_SCALAR = 8     // "Scalar": a PTO_KIND_FLOAT that the schema spells so
};

// The value of an attribute. `count`: bytes of a text (not terminated), elements of a list, else 0;
// -1 is None.
typedef struct pto_operator_value {
  union {
    int64_t integer;
    double real;
    const char* text;
    const int64_t* integers;
  };
  int64_t count;
} pto_operator_value;

typedef struct pto_operator_argument {
  const char* name;
  int32_t kind;
  uint32_t flags;
  int32_t list_size;  // 2 for "int[2]", where one int stands for two; 0: any
  int32_t type;       // a tensor's type variable, an index into pto_operator::types
  const pto_operator_value* default_value;  // null: no default, or None for a tensor
} pto_operator_argument;

// An output. Those of the schema come first, then the new elements of each mutable argument that
// the schema does not return. For a bounded output, pto_shapes gives an upper bound of the first
// size; the kernel then reports the number of rows, and only these rows of its memory are results.
typedef struct pto_operator_output {
  const char* name;
  int32_t is_list;            // "Tensor[]": the number of tensors depends on the call
  int32_t type;               // >= 0: the type variable; -1 - DType: always that type
  int32_t replaces;           // the mutable argument whose elements it replaces, or -1
  int32_t is_differentiable;  // returned and perhaps floating-point: it has a gradient
  int32_t is_bounded;         // never true for an output that replaces or is a list
} pto_operator_output;

typedef struct pto_operator {
  uint32_t abi_version;
  int32_t index;         // its place in the registry
  const char* name;      // "gelu"; the definer's adapter declares "space::name"
  const char* schema;    // "gelu(Tensor x, *, str approximate='none') -> Tensor"
  const char* document;  // one or more lines of text, or ""
  int32_t n_arguments;   // tensors and attributes, in schema order
  int32_t n_tensors;     // those that are tensors or lists of tensors, given or not
  int32_t n_outputs;     // with those of mutable arguments
  int32_t n_returns;     // those of the schema
  const pto_operator_argument* arguments;
  const pto_operator_output* outputs;
  const uint32_t* types;  // the type variables: bit d is set where pto::DType d is allowed
  int32_t n_types;

  // The gradient operator takes one gradient per differentiable output (a list for a list), then
  // the saved tensors, then this operator's attributes, then the int `needs`. Bit i asks for its
  // output i, the gradient of argument wanted[i]; an output that is not asked for comes back as an
  // empty tensor.
  int32_t gradient;  // index of the gradient operator, or -1: not differentiable
  int32_t n_saved;
  int32_t n_wanted;
  int32_t gradient_of;   // index of the operator whose gradient this is, or -1
  const int32_t* saved;  // >= 0: the argument of this index; < 0: the output of index -1 - saved[i]
  const int32_t* wanted;  // indices of arguments
  int32_t autocast;       // PTO_AUTOCAST_*

  // A weight may be given packed too, by the operator `packer`, as the last tensor argument:
  // arguments[packed] of arguments[weight]. -1: it may not.
  int32_t weight, packed, packer;
} pto_operator;

int32_t pto_operator_count(void);
const pto_operator* pto_operator_at(int32_t index);       // null beyond the count
const pto_operator* pto_operator_find(const char* name);  // null where unknown

typedef struct pto_operator_call {
  const pto_operator* op;
  // The given tensors, those of lists one after another. `counts` has one number for each tensor
  // argument: 1, 0 for None, or the length of the list; null: every argument has one tensor.
  const pto_tensor_ref* tensors;
  const int32_t* counts;
  const pto_operator_value* attributes;  // one for each other argument
  // Allocates output `output` (for a list, its tensor `member`, else 0), row-major and dense, and
  // returns its memory; null makes the call fail. It is called for empty outputs too, whose memory
  // may be anything but null. It may return memory of an argument, whole or in part: the run
  // protects the elements that it still has to read.
  void* (*allocate)(void* user, int32_t output, int32_t member, const int64_t* sizes, int32_t rank,
                    int32_t dtype);
  void* user;
  // Reports the number of rows of the bounded output `output`; called once for each of them after a
  // successful run. Null: such operators are refused.
  void (*narrow)(void* user, int32_t output, int64_t rows);
  // Returns the memory of the argument that output `output` replaces, which lies with gaps and
  // which the kernel writes as it lies; called in the place of allocate. Null: allocate is called.
  void* (*in_place)(void* user, int32_t output);
} pto_operator_call;

// Checks the arguments, asks for the outputs, runs. Returns 0, or non-zero and a text. A first call
// with new dtypes, ranks or attributes compiles.
int32_t pto_operator_run(const pto_operator_call* call);

// A site calls one operator again and again with the same attributes, as a node of a graph does. It
// remembers the first few sizes that it sees; calls with these cost less and do not read the
// attributes. Free it when no call is under way.
typedef struct pto_operator_site pto_operator_site;
pto_operator_site* pto_operator_site_new(void);  // null without memory, and null runs all the same
int32_t pto_operator_site_run(pto_operator_site* site, const pto_operator_call* call);
void pto_operator_site_free(pto_operator_site* site);

// The same call in two steps, for a queue: bind checks, copies the description and asks for the
// outputs. The tensors' memory must live until the launch has run; so must `user` where an output
// is bounded, since the launch calls narrow. Null: an error.
typedef struct pto_operator_launch pto_operator_launch;
pto_operator_launch* pto_operator_bind(const pto_operator_call* call);
int32_t pto_operator_launch_run(pto_operator_launch* launch);
void pto_operator_launch_free(pto_operator_launch* launch);

// How to call the gradient operator after one call. The pool is the gradients of the call's
// outputs, then its tensors, then its outputs, lists one by one; an adapter only gathers from it.
//
//     for (int32_t i = 0; i < plan->n_inputs; ++i) tensors[i] = pool[plan->inputs[i]];
//     if (asked_for(i) && plan->outputs[i] >= 0) needs |= 1 << plan->outputs[i];
typedef struct pto_gradient_plan {
  int32_t op;              // the gradient operator
  int32_t n_inputs;        // its tensors; the gradients of outputs come first
  const int32_t* inputs;   // their places in the pool
  const int32_t* counts;   // for each of its tensor arguments, as pto_operator_call has them
  int32_t n_given;         // tensors of the call
  const int32_t* outputs;  // for each the output that holds its gradient, or -1: it has none
  const int32_t* members;  // and which tensor of a list that is, else 0
  const int32_t* places;   // its place among all results where `needs` is all_needs, or -1
  int64_t all_needs;       // asks for the gradient of each given tensor that has one
  int32_t has_lists;       // an output is a list, which comes back empty if it is not asked for
} pto_gradient_plan;

// Returns the plan for a call with these `counts` (see pto_operator_call), whose outputs are so
// many tensors (null: one each). Null: the operator has no gradient.
const pto_gradient_plan* pto_operator_gradient_plan(const pto_operator* op, const int32_t* counts,
                                                    const int32_t* output_counts);

// Returns what, why and fix of the calling thread's last failure in this header.
const char* pto_operator_error(void);

// Sizes are expressions over the symbols s0, s1 ...: first the sizes of all axes of all given
// tensors in order, then the SymInt attributes in order.
enum {
  PTO_DIM_CONSTANT = 0,
  PTO_DIM_SYMBOL = 1,
  PTO_DIM_ADD = 2,
  PTO_DIM_SUB = 3,
  PTO_DIM_MUL = 4,
  PTO_DIM_FLOORDIV = 5,
  PTO_DIM_MOD = 6,
  PTO_DIM_MIN = 7,
  PTO_DIM_MAX = 8,
  PTO_DIM_BROADCAST = 9  // b where a is 1, a where b is 1 or equal, else an error
};

typedef struct pto_dim {
  int32_t op;
  int32_t left, right;  // earlier entries of pto_shapes::dims
  int64_t value;        // the constant, or the index of the symbol
} pto_dim;

typedef struct pto_shape {
  int32_t dtype;
  int32_t rank;
  const int32_t* sizes;  // entries of pto_shapes::dims
} pto_shape;

enum {  // pto_shape_guard::kind: what two sizes that differ mean
  PTO_GUARD_EQUAL = 0,
  PTO_GUARD_NONEMPTY = 1,  // left is min(size, 1), right is 1: an axis to be reduced has elements
  PTO_GUARD_HOLDS = 2      // left counts the elements of which `because` is not true, right is 0
};

// Two sizes that must be equal; a guard with left == right asks only that the size evaluates.
typedef struct pto_shape_guard {
  int32_t left, right;
  int32_t kind;
  const char* because;  // the operation that needs it: "add"
} pto_shape_guard;

typedef struct pto_shapes {
  int32_t n_symbols, n_dims, n_guards, n_tensors;
  const pto_dim* dims;
  const pto_shape_guard* guards;
  const pto_shape* tensors;  // all outputs', those of lists one after another
  const int32_t* counts;     // tensors of each output
} pto_shapes;

// Returns the shapes for tensors of these dtypes and ranks and these attributes. It does not read
// data, sizes, strides, or the values of SymInt and float attributes. Null: an error.
const pto_shapes* pto_operator_shapes(const pto_operator_call* call);

#ifdef __cplusplus
}
#endif
