// SPDX-License-Identifier: Apache-2.0
#include "pto/base/sha256.hpp"

#include <gtest/gtest.h>

namespace pto::sha256_test {

std::string hash(std::string_view bytes) { return hex(Sha256().update(bytes).digest()); }

TEST(Sha256, equals_the_vectors_of_fips_180) {
  EXPECT_EQ(hash(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hash("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hash("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hash(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, pieces_of_any_length_give_the_whole) {
  const std::string text(300, 'x');
  for (size_t first = 0; first <= text.size(); first += 7) {
    Sha256 pieces;
    pieces.update(text.substr(0, first)).update(text.substr(first));
    EXPECT_EQ(hex(pieces.digest()), hash(text)) << first;
  }
}

TEST(Sha256, fields_do_not_run_together) {
  EXPECT_NE(Sha256().field("ab").field("c").digest(), Sha256().field("a").field("bc").digest());
}

}  // namespace pto::sha256_test
