#include "cli/stats_report.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

namespace weft::cli {
namespace {

template <typename T>
T load(const std::byte* at) {
  T v;
  std::memcpy(&v, at, sizeof v);
  return v;
}

nlohmann::json number(double v) {
  if (std::isnan(v)) return "NaN";
  if (std::isinf(v)) return v > 0 ? "Infinity" : "-Infinity";
  return v;
}

nlohmann::json element(const std::byte* at, DType dtype) {
  switch (dtype) {
    case DType::bool_: return *at != std::byte{0};
    case DType::i32: return load<std::int32_t>(at);
    case DType::u32: return load<std::uint32_t>(at);
    case DType::f16: return number(static_cast<double>(static_cast<float>(load<float16>(at))));
    case DType::f32: return number(static_cast<double>(load<float>(at)));
  }
  return nullptr;
}

nlohmann::json nested(const std::byte*& at, const Shape& shape, std::size_t axis, DType dtype) {
  if (axis == shape.rank()) {
    nlohmann::json out = element(at, dtype);
    at += size_of(dtype);
    return out;
  }
  nlohmann::json out = nlohmann::json::array();
  for (std::int64_t i = 0; i < shape[axis]; ++i) out.push_back(nested(at, shape, axis + 1, dtype));
  return out;
}

std::string rate(std::uint64_t bytes, double milliseconds) {
  if (bytes == 0 || milliseconds <= 0) return {};
  return fmt::format(", {}/s", bytes_text(static_cast<std::uint64_t>(static_cast<double>(bytes) / milliseconds * 1e3)));
}

}  // namespace

std::string bytes_text(std::uint64_t bytes) {
  constexpr std::array<const char*, 5> kUnits{"B", "kB", "MB", "GB", "TB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 999.5 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.3g} {}", value, kUnits[unit]);
}

nlohmann::json to_json(const Report& r) {
  return {
      {"operations", r.fusion.operations},
      {"steps", r.fusion.steps},
      {"fused_ops", r.fusion.fused},
      {"dispatches", r.work.dispatches},
      {"copies", r.work.copies},
      {"submits", r.work.submits},
      {"passes", r.work.passes},
      {"materialized", r.work.materialized},
      {"tuned_ops", r.work.tuned_ops},
      {"bytes_uploaded", r.work.bytes_uploaded},
      {"bytes_read", r.work.bytes_read},
      {"peak_bytes", r.work.peak_bytes},
      {"pipeline_hits", r.work.pipeline_hits},
      {"pipeline_misses", r.work.pipeline_misses},
      {"bind_group_hits", r.work.bind_group_hits},
      {"bind_group_misses", r.work.bind_group_misses},
      {"pool_hits", r.work.pool_hits},
      {"pool_allocations", r.work.pool_allocations},
      {"blocks", r.blocks},
      {"block_passes", r.passes},
      {"bytes_streamed", r.streamed_bytes},
      {"times_ms",
       {{"load", r.times.load},
        {"open", r.times.open},
        {"upload", r.times.upload},
        {"compile", r.times.compile},
        {"compute", r.times.compute},
        {"read", r.times.read},
        {"stream", r.times.stream},
        {"save", r.times.save}}},
  };
}

void print_stats(const Report& r) {
  const Stats& w = r.work;
  if (r.fusion.operations > 0) {
    fmt::print(stderr, "operations   {} in {} steps, {} fused\n", r.fusion.operations, r.fusion.steps, r.fusion.fused);
  }
  if (r.blocks > 0) {
    fmt::print(stderr, "streamed     {} in {} block{} and {} pass{}{}\n", bytes_text(r.streamed_bytes), r.blocks,
               r.blocks == 1 ? "" : "s", r.passes, r.passes == 1 ? "" : "es", rate(r.streamed_bytes, r.times.stream));
  }
  fmt::print(stderr, "dispatches   {} in {} submits, {} copies\n", w.dispatches, w.submits, w.copies);
  fmt::print(stderr, "bytes        {} up, {} down, {} at most on the device\n", bytes_text(w.bytes_uploaded),
             bytes_text(w.bytes_read), bytes_text(w.peak_bytes));
  fmt::print(
      stderr, "caches       pipelines {} hits, {} misses; bind groups {} hits, {} misses; buffers {} hits, {} misses\n",
      w.pipeline_hits, w.pipeline_misses, w.bind_group_hits, w.bind_group_misses, w.pool_hits, w.pool_allocations);
  fmt::print(stderr,
             "time         load {:.1f} ms, open {:.1f} ms, upload {:.1f} ms{}, compute {:.1f} ms (compile {:.1f} ms), "
             "read {:.1f} ms{}, save {:.1f} ms\n",
             r.times.load, r.times.open, r.times.upload, rate(w.bytes_uploaded, r.times.upload), r.times.compute,
             r.times.compile, r.times.read, rate(w.bytes_read, r.times.read), r.times.save);
}

std::string json_text(const nlohmann::json& value) {
  return value.dump(-1, ' ', /*ensure_ascii=*/false, nlohmann::json::error_handler_t::replace);
}

nlohmann::json device_json(const Device& device) {
  const AdapterInfo& a = device.adapter();
  return {{"name", a.name}, {"type", to_string(a.type)}, {"backend", a.backend}, {"driver", a.driver}};
}

nlohmann::json values_json(const std::byte* bytes, const Shape& shape, DType dtype) {
  return nested(bytes, shape, 0, dtype);
}

}  // namespace weft::cli
