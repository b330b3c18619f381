// SPDX-License-Identifier: Apache-2.0
// The loops of attention for CPUs with AVX2, FMA and F16C; CMakeLists.txt gives the flags.
#include "pto/isa/cpu/attention_target.hpp"

constexpr pto::AttentionLoops pto::kAttentionAvx2 = pto::isa::attention::kLoops;
