// SPDX-License-Identifier: Apache-2.0
// Names: lifts the names that kernels use from pto::isa into pto; everything else stays where a
// kernel's own names cannot meet it.
//
//     using namespace pto;
//     Tile<TileType::Vec, float, 16, 64> t;
//     TADD(t, t, t);
//
// Invariant: pto-inst.hpp includes it last, since a using declaration lifts only what is declared
// before. The macros below lift the rows of instructions.def.
// Thread safety: names only.
#pragma once
#include "pto/isa/instructions.hpp"

namespace pto {

// clang-format off
#define PTO_UNARY(M, ...) using isa::M;
#define PTO_BINARY(M, ...) using isa::M;
#define PTO_BINARY_ONLY(M, ...) using isa::M;
#define PTO_TERNARY(M, ...) using isa::M;
#define PTO_ACCUMULATE(M, ...) using isa::M;
#define PTO_SCALAR(M, of) using isa::M;
#define PTO_ROW_EXPAND(M, of) using isa::M;
#define PTO_COL_EXPAND(M, of) using isa::M;
#define PTO_REDUCE(row, col, part, ...) using isa::row; using isa::col; using isa::part;
#define PTO_LOGICAL_UNARY(...)
#define PTO_LOGICAL_BINARY(...)
#include "pto/isa/instructions.def"

#define PTO_NAME(name) using isa::name;
#include "pto/isa/builtin_names.def"

// arg_reduce.hpp
using isa::TCOLARGMAX; using isa::TCOLARGMIN; using isa::TROWARGMAX; using isa::TROWARGMIN;
// comm.hpp
using isa::comm::TBROADCAST; using isa::comm::TGET; using isa::comm::TGET_ASYNC;
using isa::comm::TNOTIFY; using isa::comm::TPUT; using isa::comm::TPUT_ASYNC;
using isa::comm::TREDUCE; using isa::comm::TTEST; using isa::comm::TWAIT;
// compare.hpp
using isa::TCMP; using isa::TCMPS; using isa::TSEL; using isa::TSELS;
// concat.hpp
using isa::TCONCAT; using isa::TDEINTERLEAVE; using isa::TINTERLEAVE;
// convert.hpp
using isa::TCVT;
// conv_tile.hpp
using isa::is_conv_tile_v; using isa::ConvTile; using isa::ConvTileShape;
// conv_transfer.hpp
using isa::TEXTRACT; using isa::TLOAD; using isa::TSTORE; using isa::TTRANS;
// cores.hpp
using isa::run_blocks; using isa::run_cores;
// elementwise.hpp
using isa::TEXPANDS;
// event.hpp
using isa::Event; using isa::Op; using isa::TSYNC;
// expand.hpp
using isa::TCOLEXPAND; using isa::TROWEXPAND;
// fixpipe.hpp
using isa::ClipReluMode_t; using isa::QuantMode_t; using isa::AccPhase; using isa::AccToVecMode;
using isa::AtomicType; using isa::LayoutMode_t; using isa::ReluPreMode; using isa::STPhase;
using isa::CLIP_RELU; using isa::FixpipeParams; using isa::NOCLIP_RELU;
#define PTO_QUANT_MODE(name, ...) using isa::name;
#include "pto/isa/matrix/quant_modes.def"
// fused.hpp
using isa::TADDDEQRELU; using isa::TADDRELUCONV; using isa::TAXPY; using isa::TSUBRELUCONV;
using isa::TADDSC; using isa::TPACK; using isa::TSUBSC;
// gather.hpp
using isa::GatherAxis; using isa::ScatterAxis; using isa::MaskPattern; using isa::GATHER_COL;
using isa::GATHER_ROW; using isa::SCATTER_COL; using isa::SCATTER_ROW; using isa::TGATHER;
using isa::TGATHERB; using isa::TSCATTER;
// generate.hpp
using isa::TRandomCounter; using isa::TRandomKey; using isa::TCI; using isa::TRANDOM;
using isa::TTRI;
// global_gather.hpp
using isa::Coalesce; using isa::GatherOOB; using isa::ScatterAtomicOp; using isa::ScatterConflict;
using isa::ScatterOOB; using isa::MGATHER; using isa::MSCATTER;
// global_tensor.hpp
using isa::BaseShape2D; using isa::GlobalTensor; using isa::Shape; using isa::Stride;
using isa::TileShape2D;
// histogram.hpp
using isa::HistByte; using isa::THISTOGRAM;
// img2col.hpp
using isa::SETFMATRIX; using isa::SET_IMG2COL_PADDING; using isa::SET_IMG2COL_RPT;
using isa::SetFmatrixMode; using isa::TIMG2COL;
// int4.hpp
using isa::int4b_t;
// kernel.hpp
using isa::block_num; using isa::TASSIGN; using isa::max; using isa::min;
// matmul.hpp
using isa::TGEMV; using isa::TGEMV_ACC; using isa::TGEMV_BIAS; using isa::TGEMV_MX;
using isa::TMATMUL; using isa::TMATMUL_ACC; using isa::TMATMUL_BIAS; using isa::TMATMUL_MX;
// matrix_transfer.hpp
using isa::TSTORE_FP;
// move.hpp
using isa::TInsertMode; using isa::TileCopyMode; using isa::TEXTRACT_FP; using isa::TINSERT;
using isa::TINSERT_FP;
using isa::TMOV; using isa::TMOV_FP;
// numeric.hpp
using isa::kLanes; using isa::kMicro; using isa::mask32;
// pair_reduce.hpp
using isa::TCOLSUM; using isa::TPAIRREDUCESUM;
// partial.hpp
using isa::TPARTARGMAX; using isa::TPARTARGMIN;
// pipe.hpp
using isa::SET_QUANT_SCALAR; using isa::SET_QUANT_VECTOR; using isa::TALLOC; using isa::TFREE;
using isa::TPOP; using isa::TPUSH;
// pipe_queue.hpp
using isa::Direction; using isa::TileSplitAxis; using isa::DIR_BOTH; using isa::DIR_C2V;
using isa::DIR_V2C; using isa::DIR_V2C_CTRL; using isa::DIR_C2V_GM;
using isa::DIR_V2C_GM; using isa::DIR_BOTH_GM; using isa::TILE_LEFT_RIGHT;
using isa::TILE_LEFT_RIGHT_ODD; using isa::TILE_NO_SPLIT; using isa::TILE_UP_DOWN;
using isa::TILE_UP_DOWN_ODD; using isa::UNDEFINED; using isa::TPipe;
// prefetch.hpp
using isa::TPREFETCH; using isa::TPREFETCH_ASYNC; using isa::PrefetchAsyncContext;
// print.hpp
using isa::PrintFormat; using isa::TPRINT;
// quantize.hpp
using isa::MxQuantAlg; using isa::QuantScaleAlg; using isa::QuantType; using isa::VecStoreMode;
using isa::TDEQUANT; using isa::TQUANT;
// reshape.hpp
using isa::TFillPadMode; using isa::TFILLPAD; using isa::TFILLPAD_EXPAND;
using isa::TFILLPAD_INPLACE; using isa::TGET_SCALE_ADDR; using isa::TRESHAPE; using isa::TSUBVIEW;
// sort.hpp
using isa::GETMRGSORTTMPSIZE; using isa::TMRGSORT; using isa::TSORT32;
using isa::MrgSortExecutedNumList;
// sync.hpp
#if !defined(__CPU_SIM)  // else see compat/pto/common/builtin_names.hpp
using isa::cache_line_t; using isa::mem_dsb_t;
#endif
using isa::CV_CORE_SYNC; using isa::SyncAllMode; using isa::SyncCoreType; using isa::SYNCALL;
// tile.hpp
using isa::MicroTile; using isa::Tile;
// tile_layouts.hpp
using isa::TileAcc; using isa::TileAccCompact; using isa::TileLeft; using isa::TileLeftCompact;
using isa::TileLeftScale; using isa::TileLeftScaleCompact; using isa::TileNz; using isa::TileRight;
using isa::TileRightCompact; using isa::TileRightScale; using isa::TileRightScaleCompact;
using isa::TileZn; using isa::is_boxed_data_v;
using isa::is_global_data_v; using isa::is_tile_data_v; using isa::GetTileElementOffset;
using isa::GetTileOffset;
// transfer.hpp
using isa::stream_fence;
// types.hpp
using isa::DYNAMIC; using isa::BLayout; using isa::CacheHint; using isa::CmpMode;
using isa::CompactMode; using isa::DivAlgorithm; using isa::ExpAlgorithm;
using isa::FmodAlgorithm; using isa::FmodSAlgorithm; using isa::RemSAlgorithm;
 using isa::Layout; using isa::LogAlgorithm; using isa::PadValue;
using isa::PowAlgorithm; using isa::RecipAlgorithm; using isa::RemAlgorithm; using isa::RoundMode;
using isa::RsqrtAlgorithm; using isa::SLayout; using isa::SaturationMode;
using isa::SqrtAlgorithm; using isa::TileType; using isa::PadValueCustom;
using isa::PadValueCustom16; using isa::getCustomPadBits; using isa::isCustomPadValue;
using isa::RecordEvent;
// words.hpp
using isa::ChipArch; using isa::DequantType; using isa::FIFOType; using isa::TCopyMode;
using isa::TileLayoutCustom; using isa::VecCubeRatio; using isa::VFImplKind;
using isa::VFIMPL_1D_NO_POST_UPDATE; using isa::VFIMPL_1D_POST_UPDATE;
using isa::VFIMPL_2D_NO_POST_UPDATE; using isa::VFIMPL_2D_POST_UPDATE; using isa::VFIMPL_DEFAULT;
// clang-format on

namespace GlobalTensorDim = isa::GlobalTensorDim;
namespace comm = isa::comm;

}  // namespace pto
