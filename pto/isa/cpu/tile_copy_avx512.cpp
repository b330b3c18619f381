// SPDX-License-Identifier: Apache-2.0
// The copy engine for CPUs with AVX-512; CMakeLists.txt gives the flags.
#include "pto/isa/cpu/loops.hpp"
#include "pto/isa/cpu/steps.hpp"
#include "pto/isa/memory/tile_copy.hpp"

PTO_NAMESPACE_BEGIN
namespace moves {
PTO_COPY_MATRIX()
}  // namespace moves
namespace lanes {
PTO_GATHER_WORDS()
}  // namespace lanes
PTO_NAMESPACE_END

namespace pto {

constexpr TransposeLoops kTransposeAvx512 = {
    isa::moves::transpose_lines<1>, isa::moves::transpose_lines<2>, isa::moves::transpose_lines<4>,
    isa::moves::transpose_lines<8>};

}  // namespace pto
