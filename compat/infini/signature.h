// SPDX-License-Identifier: Apache-2.0
// Signatures of an operator, and the one that a call means, chosen while the program is compiled.
//
//     constexpr static Signature kAll[] = {{"add.out", "add.Tensor", "TTS", "abc", 2, "T"}};
//     constexpr char kGiven[] = {'T', 'T', 'T'};        // Add::Call(x, y, out)
//     static_assert(match(kAll, 1, kGiven, 3) == 0);
//
// A parameter has one letter, a small one where it may be null: T tensor, L tensors, P tensors that
// may be null, S number, Z numbers, I int, A ints, V ints or one for all, B bool, M bools, F float,
// D floats, X text, Y element type, N name of a device, layout or memory format, G generator.
// An argument has one of T L P I A B M F D C (complex) X Y N G, a small one for an optional of it,
// and 0 for null. Attributes may be left out from the last one back to the first with a default.
//
// Invariant: inputs stand first, then attributes, then outputs.
#pragma once

#include <cstddef>
#include <cstdint>

namespace infini::ops::detail {

struct Signature {
  const char* out;         // the overload that writes outputs; null: there is none, they are copied
  const char* functional;  // the one that returns results; null: there is none
  const char* inputs;      // inputs and attributes, a letter each
  const char* order;       // for each argument of the schema the place of its letter, from 'a'
  std::uint8_t required;   // inputs and attributes that have no default, at the front
  const char* outputs;     // T and L
};

constexpr std::size_t length(const char* text) {
  std::size_t n = 0;
  while (text[n]) ++n;
  return n;
}
constexpr bool is_small(char letter) { return letter >= 'a' && letter <= 'z'; }
constexpr char large(char letter) {
  return is_small(letter) ? static_cast<char>(letter - 'a' + 'A') : letter;
}
constexpr bool is_among(char letter, const char* letters) {
  for (; *letters; ++letters)
    if (*letters == letter) return true;
  return false;
}

// How far an argument is from a parameter; -1: it is none.
constexpr int distance(char parameter, char argument) {
  if (argument == '0') return is_small(parameter) ? 0 : -1;
  if (is_small(argument)) return is_small(parameter) ? distance(parameter, large(argument)) : -1;
  const char wanted = large(parameter);
  switch (wanted) {
    case 'T':
      return argument == 'T' ? 0 : is_among(argument, "BIFC") ? 2 : -1;
    case 'P':
      return argument == 'P' ? 0 : argument == 'L' ? 1 : -1;
    case 'S':
      return is_among(argument, "BIFC") ? 0 : -1;
    case 'Z':
      return is_among(argument, "AD") ? 0 : -1;
    case 'V':
      return argument == 'A' ? 0 : argument == 'I' ? 1 : -1;
    case 'B':
    case 'F':
      return argument == wanted ? 0 : argument == 'I' ? 1 : -1;
    case 'D':
      return argument == 'D' ? 0 : argument == 'A' ? 1 : -1;
    case 'N':
      return is_among(argument, "XN") ? 0 : -1;
    default:
      return argument == wanted ? 0 : -1;
  }
}

// The sum over all arguments: the last `n_outputs` of them are outputs; -1: they are none of this.
constexpr int distance(const Signature& one, const char* given, std::size_t n,
                       std::size_t n_outputs) {
  if (n < n_outputs || n - n_outputs < one.required || n - n_outputs > length(one.inputs))
    return -1;
  int sum = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const bool is_input = i < n - n_outputs;
    const char parameter = is_input ? one.inputs[i] : one.outputs[i - (n - n_outputs)];
    const int step = distance(parameter, given[i]);
    if (step < 0 || (!is_input && step > 0)) return -1;
    sum += step;
  }
  return sum;
}

// The nearest signature of a call with outputs, or of one that returns its results; -1: none.
constexpr int match(const Signature* all, std::size_t count, const char* given, std::size_t n,
                    bool returns = false) {
  int best = -1, least = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (returns && (!all[i].functional || !all[i].outputs[0])) continue;
    const int sum = distance(all[i], given, n, returns ? 0 : length(all[i].outputs));
    if (sum >= 0 && (best < 0 || sum < least)) best = static_cast<int>(i), least = sum;
  }
  return best;
}

}  // namespace infini::ops::detail
