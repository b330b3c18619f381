// SPDX-License-Identifier: Apache-2.0
// The copy engine for any CPU; CMakeLists.txt gives the flags.
#include "pto/isa/memory/tile_copy.hpp"

PTO_NAMESPACE_BEGIN
namespace moves {
PTO_COPY_MATRIX()
}  // namespace moves
PTO_NAMESPACE_END
