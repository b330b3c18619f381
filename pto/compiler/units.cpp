// SPDX-License-Identifier: Apache-2.0
#include "pto/compiler/units.hpp"

#include <algorithm>
#include <numeric>
#include <string_view>

namespace pto {
namespace {

constexpr std::string_view kSharedHead = "static ", kExportedHead = "extern \"C\" PTO_EXPORT ";

// Estimates of milliseconds, measured with g++ 12 at -O2 for AVX-512.
constexpr double kLineMs = 1.2, kLoopMs = 15, kLongFunctionMs = 20;
constexpr double kLeastMs = 250;     // of a unit; reading the headers takes a quarter of it
constexpr double kLongRootMs = 400;  // of a program's own function, from which on it is a unit
constexpr std::string_view kLongNames[] = {"TTANH(", "TEXP(",     "TERF(", "TLOG(", "TSIN(",
                                           "TCOS(",  "TSIGMOID(", "TPOW(", "TFMOD("};

// A function with what stands behind it.
struct Piece {
  std::string_view text;
  double ms = 0;
  bool is_shared = false, is_root = false;
};

int count(std::string_view text, std::string_view word) {
  int found = 0;
  for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + word.size()))
    ++found;
  return found;
}

double cost_of(std::string_view text) {
  double ms = kLineMs * count(text, "\n") + kLoopMs * count(text, "for_each_tile");
  for (const std::string_view word : kLongNames) ms += kLongFunctionMs * count(text, word);
  return ms;
}

// Returns the places where functions begin.
std::vector<size_t> starts_of(std::string_view text) {
  std::vector<size_t> starts;
  for (size_t begin = 0, end; begin < text.size(); begin = end + 1) {
    end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    const bool begins = line.starts_with(kSharedHead) || line.starts_with(kExportedHead);
    if (begins && line.ends_with(") {")) starts.push_back(begin);
  }
  return starts;
}

std::vector<Piece> pieces_of(std::string_view text, const std::vector<size_t>& starts) {
  std::vector<Piece> pieces;
  for (size_t i = 0; i < starts.size(); ++i) {
    const size_t end = i + 1 < starts.size() ? starts[i + 1] : text.size();
    Piece piece{text.substr(starts[i], end - starts[i])};
    piece.ms = cost_of(piece.text);
    piece.is_shared = piece.text.starts_with(kSharedHead);
    piece.is_root = !piece.is_shared && piece.text.find("const Frame frame") != text.npos;
    pieces.push_back(piece);
  }
  return pieces;
}

std::string_view without_static(const Piece& piece) {
  return piece.text.substr(piece.is_shared ? kSharedHead.size() : 0);
}

}  // namespace

std::vector<Unit> units_of(const std::string& text, int most) {
  const std::vector<size_t> starts = starts_of(text);
  const std::vector<Piece> pieces = pieces_of(text, starts);
  const double whole = std::accumulate(pieces.begin(), pieces.end(), 0.0,
                                       [](double sum, const Piece& p) { return sum + p.ms; });
  const int wanted = std::max(1, std::min(static_cast<int>(whole / kLeastMs), most));
  const auto is_apart = [](const Piece& p) { return p.is_root && p.ms > kLongRootMs; };
  const bool is_one = wanted == 1 && std::none_of(pieces.begin(), pieces.end(), is_apart);
  if (is_one || pieces.size() < 2) return {{text}};

  std::string head = text.substr(0, starts[0]);
  for (const Piece& piece : pieces)
    if (piece.is_shared)
      head +=
          std::string(without_static(piece).substr(0, without_static(piece).find(" {\n"))) + ";\n";
  struct Load {
    double ms = 0;
    bool is_root = false;
    std::vector<size_t> pieces;
  };
  std::vector<Load> loads(static_cast<size_t>(wanted));
  std::vector<size_t> order(pieces.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return pieces[a].ms > pieces[b].ms; });
  for (const size_t i : order) {
    if (is_apart(pieces[i])) {
      loads.insert(loads.begin(), {pieces[i].ms, true, {i}});
      continue;
    }
    auto least = std::min_element(loads.begin(), loads.end(), [](const Load& a, const Load& b) {
      return !a.is_root && (b.is_root || a.ms < b.ms);
    });
    least->ms += pieces[i].ms;
    least->pieces.push_back(i);
  }
  std::stable_sort(loads.begin(), loads.end(),
                   [](const Load& a, const Load& b) { return a.ms > b.ms; });
  std::vector<Unit> units;
  for (Load& load : loads) {
    if (load.pieces.empty()) continue;
    std::sort(load.pieces.begin(), load.pieces.end());
    Unit unit{head, load.is_root};
    for (const size_t i : load.pieces) unit.text += without_static(pieces[i]);
    units.push_back(std::move(unit));
  }
  return units;
}

}  // namespace pto
