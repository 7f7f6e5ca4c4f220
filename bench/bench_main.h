// The main() of all Google Benchmark programs here: the usual flags, and --serve, by which bench/driver starts one
// benchmark at a time in turns with its peers.
//
// --serve: the first line on stdout says who serves (JSON: adapter, implementation, names of all benchmarks); then each
// line on stdin that is a benchmark's name is run once, and answered by one line: {"row", "seconds" (a call),
// "counters"} or {"row", "error"}. Ends with stdin. What else is printed goes to stderr.
#pragma once

#include <functional>

namespace weft::bench {

/// `register_more` runs after the flags were read and before the names are listed. Every program gets the row
/// `control`: plain copies of 64 MiB (16 on CPU devices), which no change of ours may move.
int bench_main(int argc, char** argv, const std::function<void()>& register_more = {});

}  // namespace weft::bench
