// SPDX-License-Identifier: Apache-2.0
// Names: lifts the names that kernels use from pto::isa into pto; everything else stays where a
// kernel's own names cannot meet it.
//
//     using namespace pto;
//     Tile<TileType::Vec, float, 16, 64> t;
//     TADD(t, t, t);
//
// Invariant: comes last, since a name lifts only earlier declarations. The instructions of
// instructions.def lift themselves.
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
// control.hpp
using isa::get_ctrl; using isa::sbitset0; using isa::sbitset1; using isa::set_ctrl;
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
using isa::CLIP_RELU; using isa::DEQF16; using isa::F322BF16; using isa::F322F16;
using isa::NOCLIP_RELU; using isa::NoQuant; using isa::QF322B8_PRE; using isa::QF322BF16_PRE;
using isa::QF322F16_PRE; using isa::QF322F32_PRE; using isa::QF322FP8_PRE;
using isa::QF322HIF8_PRE; using isa::QS322BF16_PRE; using isa::REQ8; using isa::SHIFTS322S16;
using isa::VDEQF16; using isa::VQF322B8_PRE; using isa::VQF322BF16_PRE; using isa::VQF322F16_PRE;
using isa::VQF322F32_PRE; using isa::VQF322FP8_PRE; using isa::VQF322HIF8_PRE;
using isa::VQS322BF16_PRE; using isa::VREQ8; using isa::VSHIFTS322S16; using isa::FixpipeParams;
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
// hifloat8.hpp
using isa::hifloat8_t;
// histogram.hpp
using isa::HistByte; using isa::THISTOGRAM;
// img2col.hpp
using isa::SETFMATRIX; using isa::SET_IMG2COL_PADDING; using isa::SET_IMG2COL_RPT;
using isa::SetFmatrixMode; using isa::TIMG2COL;
// int4.hpp
using isa::int4b_t;
// kernel.hpp
using isa::block_idx; using isa::block_num; using isa::TASSIGN; using isa::get_block_idx;
using isa::get_block_num; using isa::get_coreid; using isa::get_subblockdim;
using isa::get_subblockid; using isa::max; using isa::min;
// matmul.hpp
using isa::TGEMV; using isa::TGEMV_ACC; using isa::TGEMV_BIAS; using isa::TGEMV_MX;
using isa::TMATMUL; using isa::TMATMUL_ACC; using isa::TMATMUL_BIAS; using isa::TMATMUL_MX;
// matrix_transfer.hpp
using isa::TSTORE_FP;
// move.hpp
using isa::TInsertMode; using isa::TileCopyMode; using isa::TEXTRACT_FP; using isa::TINSERT;
using isa::TINSERT_FP;
using isa::TMOV; using isa::TMOV_FP;
// narrow_float.hpp
using isa::float4_e1m2x2_t; using isa::float4_e2m1x2_t; using isa::float8_e4m3_t;
using isa::float8_e5m2_t; using isa::float8_e8m0_t;
// numeric.hpp
using isa::kLanes; using isa::kMicro; using isa::bfloat16_t; using isa::half; using isa::mask32;
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
using isa::CV_CORE_SYNC; using isa::dcci_dst_t; using isa::event_t; using isa::pipe_t;
using isa::SyncAllMode; using isa::SyncCoreType; using isa::CACHELINE_ALL;
using isa::CACHELINE_ATOMIC; using isa::CACHELINE_OUT; using isa::CACHELINE_UB; using isa::DSB_ALL; using isa::DSB_DDR; using isa::DSB_SEQ;
using isa::DSB_UB; using isa::ENTIRE_DATA_CACHE; using isa::EVENT_ID0; using isa::EVENT_ID1;
using isa::EVENT_ID2; using isa::EVENT_ID3; using isa::EVENT_ID4; using isa::EVENT_ID5;
using isa::EVENT_ID6; using isa::EVENT_ID7; using isa::PIPE_ALL; using isa::PIPE_FIX;
using isa::PIPE_M; using isa::PIPE_MTE1; using isa::PIPE_MTE2; using isa::PIPE_MTE3;
using isa::PIPE_S; using isa::PIPE_V; using isa::SINGLE_CACHE_LINE; using isa::SYNCALL;
using isa::_getFFTSMsg; using isa::dcci; using isa::dsb; using isa::ffts_cross_core_sync;
using isa::getFFTSMsg; using isa::pipe_barrier; using isa::set_ffts_base_addr; using isa::set_flag;
using isa::set_intra_block; using isa::set_mask_count; using isa::set_mask_norm;
using isa::set_vector_mask; using isa::wait_flag; using isa::wait_flag_dev;
using isa::wait_intra_block;
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
