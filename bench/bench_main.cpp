#include "bench_main.h"

#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "bench_device.h"
#include "weft/kernel.h"
#include "weft/stream.h"

namespace weft::bench {
namespace {

using nlohmann::json;

void control(benchmark::State& state) {
  const bool cpu = device().adapter().type == AdapterType::cpu;
  const std::uint32_t bytes = (cpu ? 16u : 64u) << 20;
  const int calls = cpu ? 1 : 8;
  static const Kernel kernel = copy_kernel(device());
  static const Buffer from = device().zeros_bytes(bytes);
  static const Buffer to = device().zeros_bytes(bytes);
  const auto run = [&] {
    for (int i = 0; i < calls; ++i) copy_vec4(kernel, from, to);
    device().synchronize();
  };
  run();
  for (auto _ : state) run();
  state.SetItemsProcessed(state.iterations() * calls);
  state.SetBytesProcessed(state.iterations() * calls * 2 * static_cast<std::int64_t>(bytes));
}
BENCHMARK(control)->Iterations(4)->UseRealTime();

/// Keeps what one run measured.
class Recorder : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      if (run.run_type != Run::RT_Iteration) continue;
      last = json::object();
      if (run.error_occurred) {
        last["error"] = run.error_message;
        continue;
      }
      last["seconds"] = run.real_accumulated_time / static_cast<double>(run.iterations);
      for (const auto& [name, counter] : run.counters) last["counters"][name] = counter.value;
    }
  }
  json last;
};

std::vector<std::string> names() {
  char program[] = "bench", list[] = "--benchmark_list_tests=true", run[] = "--benchmark_list_tests=false";
  const auto flag = [&](char* value) {
    char* arguments[] = {program, value, nullptr};
    int count = 2;
    benchmark::Initialize(&count, arguments);
  };
  std::stringstream text;
  Recorder recorder;
  recorder.SetOutputStream(&text);
  flag(list);
  benchmark::RunSpecifiedBenchmarks(&recorder, ".");
  flag(run);
  std::vector<std::string> out;
  for (std::string line; std::getline(text, line);) out.push_back(line);
  return out;
}

/// A filter that matches this name and no other.
std::string exactly(const std::string& name) {
  std::string out = "^";
  for (char c : name) {
    if (std::strchr("\\^$.|?*+()[]{}", c) != nullptr) out += '\\';
    out += c;
  }
  return out + "$";
}

void answer(std::FILE* out, const json& line) {
  std::fprintf(out, "%s\n", line.dump(-1, ' ', false, json::error_handler_t::replace).c_str());
  std::fflush(out);
}

void serve() {
  const AdapterInfo& adapter = device().adapter();
  answer(stdout, {{"worker", "weft"},
                  {"version", version()},
                  {"webgpu", std::string(implementation_name()) + " " + implementation_version()},
                  {"implementation", implementation_name()},
                  {"adapter", adapter.name},
                  {"driver", adapter.driver},
                  {"cpu", adapter.type == AdapterType::cpu},
                  {"rows", names()}});
  for (std::string name; std::getline(std::cin, name);) {
    Recorder recorder;
    try {
      benchmark::RunSpecifiedBenchmarks(&recorder, exactly(name));
    } catch (const std::exception& e) {
      recorder.last = {{"error", e.what()}};
    }
    if (recorder.last.is_null()) recorder.last = {{"error", "no benchmark has this name"}};
    recorder.last["row"] = name;
    answer(stdout, recorder.last);
  }
}

}  // namespace

int bench_main(int argc, char** argv, const std::function<void()>& register_more) try {
  const bool serving = argc > 1 && std::strcmp(argv[1], "--serve") == 0;
  if (serving) {
    for (int i = 1; i < argc; ++i) argv[i] = argv[i + 1];
    --argc;
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  add_context();
  if (register_more) register_more();
  if (serving) {
    serve();
  } else {
    benchmark::RunSpecifiedBenchmarks();
  }
  benchmark::Shutdown();
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}

}  // namespace weft::bench
