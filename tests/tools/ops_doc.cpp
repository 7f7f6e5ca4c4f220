// Prints docs/ops.md from the library's own list; script/docs writes it, and a test compares it with what is committed.
#include <fmt/format.h>

#include <cstdio>

#include "ops/catalog.h"

int main() {
  std::size_t count = 0;
  for (const weft::ops::OpFamily* family : weft::ops::families()) count += family->ops.size();
  fmt::print(
      "# The ops\n\nMade by `script/docs` from the library's own list (`src/ops/*_catalog.cpp`): {} ops. The headers "
      "`weft/ops.h`,\n`weft/indexing.h`, `weft/nn.h`, `weft/random.h` and `weft/fft.h` have the contracts. Tolerances "
      "are what the tests hold each op\nto; an ulp is one unit in the last place of the result. Every op takes strided "
      "and broadcast views, and `weft::into` gives\nits result to memory of the caller's.\n",
      count);
  for (const weft::ops::OpFamily* family : weft::ops::families()) {
    fmt::print("\n## {}\n\n| op | dtypes | computes | the same as | limits | tolerance |\n|---|---|---|---|---|---|\n",
               family->title);
    for (const weft::ops::OpEntry& op : family->ops) {
      fmt::print("| `{}` |", op.name);
      for (std::string_view text : {op.dtypes, op.formula, op.same_as, op.limits, op.tolerance}) {
        std::string cell(text);
        for (std::size_t at = 0; (at = cell.find('|', at)) != std::string::npos; at += 2) cell.insert(at, "\\");
        fmt::print(" {} |", cell);
      }
      fmt::print("\n");
    }
  }
}
