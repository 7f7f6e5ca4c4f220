// cli/stats_report.h - what --stats and --json say.
#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "weft/device.h"
#include "weft/expr.h"
#include "weft/stats.h"
#include "weft/tensor.h"

namespace weft::cli {

/// Milliseconds that each part of a command took. `compile` is the implementation's compiler alone, a part of
/// `compute`.
struct Times {
  double load = 0, open = 0, upload = 0, compile = 0, compute = 0, read = 0, save = 0;
  double stream = 0;  ///< loading to saving, of an evaluation in blocks
};

/// Adds the time until it goes to one of them.
class Stopwatch {
 public:
  explicit Stopwatch(double& milliseconds) : milliseconds_(milliseconds) {}
  ~Stopwatch() {
    milliseconds_ += std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start_).count();
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  double& milliseconds_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// "1.5 MB"; powers of 1000.
std::string bytes_text(std::uint64_t bytes);

struct Report {
  Stats work;  ///< of the command's device
  Times times;
  EvalStats fusion;         ///< of an evaluation; zeros for a kernel
  std::int64_t blocks = 0;  ///< of an evaluation in blocks, else 0
  std::size_t passes = 0;
  std::uint64_t streamed_bytes = 0;  ///< read from files and written
};
nlohmann::json to_json(const Report& report);
void print_stats(const Report& report);

/// On one line. Bytes of file names that are not UTF-8, which JSON lacks too, as U+FFFD.
std::string json_text(const nlohmann::json& value);

/// {"name", "type", "backend", "driver"} of the device's adapter.
nlohmann::json device_json(const Device& device);

/// The elements as nested lists; NaN and infinities as the texts "NaN", "Infinity", "-Infinity", which JSON lacks.
nlohmann::json values_json(const std::byte* bytes, const Shape& shape, DType dtype);

}  // namespace weft::cli
