// SPDX-License-Identifier: Apache-2.0
// Enumerators of public sources by their public values, which sources store and compare.
#include <gtest/gtest.h>

#include <pto/pto-inst.hpp>

using namespace pto;

template <class E>
constexpr bool counts_from(long long first, std::initializer_list<E> values) {
  for (const E value : values)
    if (static_cast<long long>(value) != first++) return false;
  return true;
}

static_assert(counts_from(0, {SaturationMode::ON, SaturationMode::OFF}));
static_assert(counts_from(2, {AccPhase::Partial, AccPhase::Final}));
static_assert(AccPhase::Unknown == AccPhase::Unspecified && int(AccPhase::Unknown) == 0);
static_assert(counts_from(2, {STPhase::Partial, STPhase::Final}));
static_assert(uint64_t(PadValue::CustomBase) == 1ull << 32);
static_assert(isCustomPadValue(PadValue::CustomBase) && !isCustomPadValue(PadValue::Min));
static_assert(counts_from(0, {ScatterConflict::Last, ScatterConflict::Default}));
static_assert(counts_from(4, {DIR_V2C_CTRL, DIR_C2V_GM, DIR_V2C_GM, DIR_BOTH_GM}));
using Fifo = FIFOType;
static_assert(counts_from(0, {Fifo::GM_FIFO, Fifo::VEC_FIFO, Fifo::MAT_FIFO, Fifo::CTRL_FIFO}));
using Ratio = VecCubeRatio;
static_assert(counts_from(0, {Ratio::V1C1_VEC0, Ratio::V1C1_VEC1, Ratio::V2C1_VECS}));
using Arch = ChipArch;
static_assert(counts_from(0, {Arch::A2A3, Arch::A5, Arch::KIRIN9030, Arch::KIRINX90, Arch::A6}));
static_assert(int(ChipArch::UNKNOWN) == 255 && int(MxQuantAlg::Hif4) == 4);
using Custom = TileLayoutCustom;
static_assert(counts_from(0, {Custom::ND, Custom::DN, Custom::NZ, Custom::ZN, Custom::ZZ}));
static_assert(counts_from(0, {TCopyMode::SHALLOW_COPY, TCopyMode::DEEP_COPY}));
static_assert(counts_from(0, {DequantType::SCALAR, DequantType::TENSOR}));
static_assert(counts_from(0, {VFIMPL_DEFAULT, VFIMPL_1D_NO_POST_UPDATE, VFIMPL_2D_NO_POST_UPDATE,
                              VFIMPL_1D_POST_UPDATE, VFIMPL_2D_POST_UPDATE}));
using Engine = comm::DmaEngine;
static_assert(counts_from(0, {Engine::SDMA, Engine::URMA, Engine::RDMA}));
using Source = comm::CcuInputSource;
static_assert(counts_from(0, {Source::HostManaged, Source::AivStored}));
static_assert(counts_from(0, {comm::RdmaBackend::NONE, comm::RdmaBackend::HNS_1825}));
static_assert(counts_from(0, {FmodSAlgorithm::DEFAULT, FmodSAlgorithm::HIGH_PRECISION}));
static_assert(counts_from(0, {RemSAlgorithm::DEFAULT, RemSAlgorithm::HIGH_PRECISION}));

TEST(Values, slots_in_memory_are_pipes_as_others) {
  using Pipe = TPipe<9, Direction::DIR_V2C_GM, 1024, 2>;
  using Vector = Tile<TileType::Vec, float, 8, 8>;
  using Matrix = Tile<TileType::Mat, float, 8, 8>;
  Pipe from(nullptr, 0, 0), to(nullptr, 0, 0);
  Vector sent;
  Matrix got;
  TEXPANDS(sent, 3.f);
  TPUSH<Pipe, Vector, TileSplitAxis::TILE_NO_SPLIT>(from, sent);
  TPOP<Pipe, Matrix, TileSplitAxis::TILE_NO_SPLIT>(to, got);
  TFREE<Pipe, TileSplitAxis::TILE_NO_SPLIT>(to);
  EXPECT_EQ(got.GetElement(7, 7), 3.f);
}

// As in the simulator, f32 operands are numbers without a scale.
TEST(Values, scaled_products_of_f32_are_products) {
  TileLeft<float, 16, 16> a;
  TileRight<float, 16, 16> b;
  TileLeftScale<float, 16, 2> a_scale;
  TileRightScale<float, 16, 2> b_scale;
  TileAcc<float, 16, 16> scaled, plain;
  for (int i = 0; i < 256; ++i) {
    a.SetElement(i / 16, i % 16, float(i % 7));
    b.SetElement(i / 16, i % 16, float(i % 5 - 2));
    if (i >= 32) continue;
    a_scale.SetElement(i / 2, i % 2, 3.f);
    b_scale.SetElement(i / 2, i % 2, 3.f);
  }
  TMATMUL_MX(scaled, a, a_scale, b, b_scale);
  TMATMUL(plain, a, b);
  for (int i = 0; i < 256; ++i) EXPECT_EQ(scaled.GetValue(i), plain.GetValue(i)) << i;
}
