// SPDX-License-Identifier: Apache-2.0
// Calls of ATen's operators as plain C: what the part `aten` of the torch adapter gives a program.
//
//     const pto_aten_library* torch = pto_aten();          // exported by the part
//     const pto_aten_operator* add = torch->find("add.out");
//     int32_t n = torch->call(add, arguments, 4, results, 1);   // < 0: torch->error() says why
//     for (int32_t i = 0; i < n; ++i) torch->release(&results[i]);
//
// The part is built for one PyTorch, by `python -m pto adapters build torch`; aten.hpp finds it and
// is the face of this table in C++. Types of elements are DLPack's code and bits: complex is 5.
//
// Invariant: only POD crosses this header. Operators live as long as the process.
// Thread safety: every function may be called from any thread; an error belongs to its thread.
#pragma once
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { PTO_ATEN_ABI_VERSION = 2 };

// Kinds of values.
enum {
  PTO_ATEN_LEFT_OUT = 0,  // the schema's default
  PTO_ATEN_NONE = 1,
  PTO_ATEN_MEMORY = 2,  // a tensor over the caller's memory
  PTO_ATEN_TENSOR = 3,  // a tensor that the library made
  PTO_ATEN_GENERATOR = 4,
  PTO_ATEN_INT = 5,
  PTO_ATEN_DOUBLE = 6,
  PTO_ATEN_BOOL = 7,  // integer, 0 or 1
  PTO_ATEN_COMPLEX = 8,
  PTO_ATEN_STRING = 9,  // also names a device, a layout or a memory format: "channels_last"
  PTO_ATEN_TYPE = 10,   // an element type
  PTO_ATEN_LIST = 11
};

// A tensor over memory that the caller keeps alive during the call, and as long as a result may
// lie in it. Strides count elements; null: row-major without gaps.
typedef struct pto_aten_memory {
  void* data;
  const int64_t* sizes;
  const int64_t* strides;
  int32_t rank;
  uint8_t type_code, type_bits;
  uint8_t is_read_only;  // 1: a call that would write there is refused
} pto_aten_memory;

typedef struct pto_aten_object pto_aten_object;

typedef struct pto_aten_value {
  int32_t kind;
  int64_t count;  // of a list: its items; of a text: its bytes
  union {
    pto_aten_memory memory;
    pto_aten_object* object;  // a tensor or a generator
    int64_t integer;
    double real;
    double parts[2];  // real and imaginary
    const char* text;
    struct {
      uint8_t code, bits;
    } type;
    const struct pto_aten_value* items;
  };
} pto_aten_value;

typedef struct pto_aten_operator pto_aten_operator;

typedef struct pto_aten_library {
  uint32_t abi_version;
  const char* torch_version;  // "2.13.0"

  int32_t (*count)(void);
  const pto_aten_operator* (*at)(int32_t index);  // null beyond the count
  // Finds "add.out", or "neg" for the overload without a name; null: there is none, and
  // error() says why.
  const pto_aten_operator* (*find)(const char* name);
  const char* (*schema)(const pto_aten_operator* op);
  int32_t (*has_kernel)(const pto_aten_operator* op);  // for dense tensors of the CPU

  // Calls an operator with values in the order of the schema; those behind the last given one are
  // left out. Writes the results, which the caller releases, and returns how many there are; -1:
  // the call failed, or was refused before it wrote anything. No place for results (null) drops
  // them. A result that is an argument over memory may come back as that argument, which then lends
  // its sizes.
  int32_t (*call)(const pto_aten_operator* op, const pto_aten_value* arguments, int32_t n,
                  pto_aten_value* results, int32_t room);
  void (*release)(pto_aten_value* result);
  pto_aten_value (*share)(const pto_aten_value* result);  // the same tensor once more

  // Says where the elements of a tensor lie; valid until it is released or resized.
  int32_t (*describe)(const pto_aten_object* tensor, pto_aten_memory* memory);
  pto_aten_value (*generator)(uint64_t seed);
  const char* (*error)(void);  // the calling thread's last failure: what, why, fix
} pto_aten_library;

const pto_aten_library* pto_aten(void);
const char* pto_aten_build_id(
    void);  // of the loaded libtorch_cpu.so, under which the part is found

#ifdef __cplusplus
}
#endif
