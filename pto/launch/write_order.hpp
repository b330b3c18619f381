// SPDX-License-Identifier: Apache-2.0
// WriteOrder: calls that write the same memory follow each other, whatever threads they run on.
//
//     const AddressRange written[] = {address_range(cache)};
//     const WriteOrder order(written);   // waits; until the end of the scope nobody else writes it
//
// A call inside of another one of its thread waits for nobody. Who waits gives up the host's lock.
// Thread safety: any thread.
#pragma once

#include <span>

#include "pto/base/strided.hpp"

namespace pto {

class WriteOrder {
 public:
  explicit WriteOrder(std::span<const AddressRange> written);  // which outlive it; empty: nothing
  ~WriteOrder();
  WriteOrder(const WriteOrder&) = delete;
  WriteOrder& operator=(const WriteOrder&) = delete;

 private:
  bool must_wait() const;
  void enter();

  const std::span<const AddressRange> written_;
  WriteOrder* next_ = nullptr;  // of those under way
};

}  // namespace pto
