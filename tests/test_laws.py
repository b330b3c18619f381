# SPDX-License-Identifier: Apache-2.0
"""docs/laws.md lists every test with its tier, and the reader of sources finds what is there."""

import laws

CPP = """
int pick(int round) { return rounds_of(3, 300) + round; }
TEST(Sums, are_exact) {
  EXPECT_EQ(1, 1);
}
TEST_P(Sums, of_many_are_exact) {
  pick(1);
}
"""
PYTHON = """
DEEP = os.environ.get("PTO_DEEP") == "1"
CASES = 9 if DEEP else 1
@pytest.fixture
def library():
    if not DEEP:
        pytest.skip("minutes")
def test_a(): pass
def test_b(deep): pass
def test_c(deep):
    if not deep:
        pytest.skip("minutes")
def test_d(deep):
    if not deep and os.name == "posix":
        pytest.skip("minutes")
class TestParts:
    def test_e(self): CASES
    def test_f(self, library): pass
"""


def test_the_page_is_that_of_the_sources():
    assert laws.PAGE.read_text() == laws.page(laws.laws()), "run ./dev docs"


def test_a_test_has_the_tier_of_what_it_calls():
    found = [(law.suite, law.name, law.tier) for law in laws.laws_of_cpp("a_test.cpp", CPP)]
    assert found == [
        ("Sums", "are_exact", laws.QUICK),
        ("Sums", "of_many_are_exact", laws.LONGER),
    ]
    found = {law.name[-1]: law.tier for law in laws.laws_of_python("test_a.py", PYTHON)}
    quick, longer, deep = laws.QUICK, laws.LONGER, laws.DEEP
    assert found == {"a": quick, "b": longer, "c": deep, "d": longer, "e": longer, "f": deep}
