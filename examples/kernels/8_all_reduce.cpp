// SPDX-License-Identifier: Apache-2.0
// A ring all-reduce over ranks in one process: each block is a rank. In step s a rank adds the
// part that its left neighbour finished to its own and tells its right neighbour; after n - 1 steps
// every part is complete somewhere, and n - 1 more steps carry it around.
#include "example.hpp"

using namespace pto;

constexpr int kRanks = 4, kPart = 16384;

struct Ring {
  float* data[kRanks];     // of each rank: kRanks parts
  int32_t* ready[kRanks];  // steps that the rank has finished
};

AICORE void AllReduce(__gm__ const Ring& ring) {
  Tile<TileType::Vec, float, 16, 1024> mine, theirs;
  const int rank = int(get_block_idx()), left = (rank + kRanks - 1) % kRanks;
  for (int step = 0; step < 2 * (kRanks - 1); ++step) {
    const int part = (rank + 2 * kRanks - 1 - step) % kRanks;
    if (step > 0) comm::TWAIT(comm::Signal(ring.ready[left]), step, comm::WaitCmp::GE);
    float* to = ring.data[rank] + part * kPart;
    TLOAD(theirs, GlobalTensor(ring.data[left] + part * kPart, kPart));
    if (step < kRanks - 1) {
      TLOAD(mine, GlobalTensor(to, kPart));
      TADD(theirs, theirs, mine);
    }
    TSTORE(GlobalTensor(to, kPart), theirs);
    comm::TNOTIFY(comm::Signal(ring.ready[rank]), 1, comm::NotifyOp::AtomicAdd);
  }
}

int main() {
  std::vector<std::vector<float>> data(kRanks), start(kRanks);
  std::vector<std::vector<int32_t>> ready(kRanks, std::vector<int32_t>(16));
  Ring ring = {};
  std::vector<double> want(kRanks * kPart, 0);
  for (int r = 0; r < kRanks; ++r) {
    start[r] = data[r] = example::random_floats(kRanks * kPart, 1, unsigned(r + 1));
    ring.data[r] = data[r].data();
    ring.ready[r] = ready[r].data();
    for (int i = 0; i < kRanks * kPart; ++i) want[i] += start[r][i];
  }
  const double taken = example::seconds([&] {
    for (int r = 0; r < kRanks; ++r) {
      std::copy(start[r].begin(), start[r].end(), data[r].begin());
      ready[r][0] = 0;
    }
    run_blocks(kRanks, [&] { AllReduce(ring); });
  });
  double worst = 0;
  for (int r = 0; r < kRanks; ++r) worst = std::fmax(worst, example::error(data[r], want));
  const double bytes = 2.0 * (kRanks - 1) * kPart * sizeof(float) * kRanks;
  return example::report("ring all-reduce, 4 ranks of 256 KB", worst, 1e-6, bytes, "GB/s", taken);
}
