// SPDX-License-Identifier: Apache-2.0
// The loops of attention for every CPU; CMakeLists.txt gives the flags.
#include "pto/isa/cpu/attention_target.hpp"

constexpr pto::AttentionLoops pto::kAttentionPortable = pto::isa::attention::kLoops;
