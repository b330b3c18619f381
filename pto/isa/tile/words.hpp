// SPDX-License-Identifier: Apache-2.0
// Words: public names that choose between things of chips and mean nothing here, with their public
// values.
//
//     constexpr auto where = FIFOType::VEC_FIFO;   // accepted and not looked at
//
// Thread safety: constants.
#pragma once
#include "pto/isa/tile/types.hpp"

PTO_NAMESPACE_BEGIN

enum class ChipArch : uint8_t { A2A3, A5, KIRIN9030, KIRINX90, A6, UNKNOWN = 255 };
enum class FIFOType : uint8_t { GM_FIFO, VEC_FIFO, MAT_FIFO, CTRL_FIFO };
enum class VecCubeRatio : uint8_t { V1C1_VEC0, V1C1_VEC1, V2C1_VECS };
enum class TileLayoutCustom : uint8_t { ND, DN, NZ, ZN, ZZ, NONE };
enum class TCopyMode : uint8_t { SHALLOW_COPY, DEEP_COPY };
enum class DequantType { SCALAR, TENSOR };
enum VFImplKind : unsigned {
  VFIMPL_DEFAULT,
  VFIMPL_1D_NO_POST_UPDATE,
  VFIMPL_2D_NO_POST_UPDATE,
  VFIMPL_1D_POST_UPDATE,
  VFIMPL_2D_POST_UPDATE
};

namespace comm {
enum class CcuInputSource : uint8_t { HostManaged, AivStored };
enum class RdmaBackend : uint32_t { NONE, HNS_1825 };
}  // namespace comm

PTO_NAMESPACE_END
