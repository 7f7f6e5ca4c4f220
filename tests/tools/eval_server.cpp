// Evaluates expressions for tests in other languages: one JSON object a line on stdin, one a line back.
//   {"id": 1, "expr": "x + y", "inputs": {"x": "x.npy", "y": 2.5}, "out": "z.npy", "allow_downcast": false}
//     -> {"id": 1, "ok": true, "dtype": "float32", "shape": [3], "stats": {...}}
//     -> {"id": 1, "ok": false, "code": "invalid_argument", "error": "..."}
//   {..., "stream": {"memory": 1000000, "block_bytes": 4096}}   in blocks; the answer has "blocks", "passes", "cut"
//   {"id": 2, "cmd": "stats"}   the device's counters since it was opened
//   {"id": 3, "cmd": "device"}  the device, and whether it has f16
// A number among the inputs is a scalar; the text "inf", "-inf" or "nan" under {"number": ...} is one too. Without
// "out" nothing is written. "stats" of an evaluation counts that evaluation alone. One device lives as long as the
// program.
#include <cstdint>
#include <exception>
#include <iostream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>

#include "cli/arrays.h"
#include "cli/stats_report.h"
#include "weft/error.h"
#include "weft/expr.h"
#include "weft/io.h"

namespace {

using nlohmann::json;

weft::Scalar scalar_of(const json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (value.is_number()) return value.get<double>();
  const std::string text = value.at("number").get<std::string>();
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  return text == "-inf" ? -infinity : infinity;
}

/// Counters of the work between two readings.
json difference(const json& before, const json& after) {
  json out = json::object();
  for (const auto& [name, value] : after.items()) {
    if (value.is_number_unsigned() && before.contains(name)) {
      out[name] = value.get<std::int64_t>() - before.at(name).get<std::int64_t>();
    }
  }
  return out;
}

json evaluate(const weft::Device& device, const json& request) {
  const auto expression = weft::Expression::parse(request.at("expr").get<std::string>());
  const bool allow_downcast = request.value("allow_downcast", false);
  std::map<std::string, weft::io::HostArray> arrays;
  weft::Expression::Types types;
  json notes = json::array();
  const json inputs = request.value("inputs", json::object());
  for (const auto& [name, value] : inputs.items()) {
    if (!value.is_string()) {
      types.emplace(name, scalar_of(value));
      continue;
    }
    const auto path = value.get<std::string>();
    weft::io::Conversion made = weft::io::as_device_dtype(weft::io::load(path), path, allow_downcast);
    if (made.note) notes.push_back(*made.note);
    types.emplace(name, weft::TensorType{made.array.shape, *weft::io::device_dtype(made.array.dtype), path});
    arrays.emplace(name, std::move(made.array));
  }
  expression.check(types, &device);

  const json before = to_json(weft::cli::Report{device.stats(), {}, {}});
  weft::Expression::Values values;
  for (const auto& [name, type] : types) {
    if (const auto* number = std::get_if<weft::Scalar>(&type))
      values.emplace(name, *number);
    else
      values.emplace(name, weft::cli::upload(device, arrays.at(name)));
  }
  weft::EvalStats fusion;
  const weft::Tensor result = expression.evaluate(device, values, &fusion);
  const weft::cli::HostBytes bytes = weft::cli::download(result);
  if (request.contains("out")) weft::cli::save(request.at("out").get<std::string>(), result, bytes);

  json out = {{"ok", true}, {"dtype", to_string(result.dtype())}, {"shape", json::array()}, {"notes", notes}};
  for (std::int64_t n : result.shape()) out["shape"].push_back(n);
  out["stats"] = difference(before, to_json(weft::cli::Report{device.stats(), {}, fusion}));
  return out;
}

/// As evaluate, block by block, whatever the size.
json stream(const weft::Device& device, const json& request) {
  const auto expression = weft::Expression::parse(request.at("expr").get<std::string>());
  const bool allow_downcast = request.value("allow_downcast", false);
  std::map<std::string, weft::io::ComputableFile> files;
  weft::Expression::Sources sources;
  weft::Expression::Types types;
  const json inputs = request.value("inputs", json::object());
  for (const auto& [name, value] : inputs.items()) {
    if (!value.is_string()) {
      sources.emplace(name, scalar_of(value));
      types.emplace(name, scalar_of(value));
      continue;
    }
    const auto path = value.get<std::string>();
    weft::io::ComputableFile& file =
        files.emplace(name, weft::io::ComputableFile(weft::io::ArrayFile::open(path), path, allow_downcast))
            .first->second;
    const weft::TensorType type{file.file().shape(), file.dtype(), path};
    types.emplace(name, type);
    sources.emplace(name, weft::BlockSource{type, file.file().fortran_order(),
                                            [&file](std::size_t axis, std::int64_t begin, std::int64_t end,
                                                    std::span<std::byte> out) { file.read(axis, begin, end, out); }});
  }
  const weft::TensorType type = expression.check(types, &device);
  const json wish = request.at("stream");
  const weft::StreamOptions options{.memory = wish.value("memory", std::uint64_t{1} << 30),
                                    .block_bytes = wish.value("block_bytes", std::uint64_t{0})};
  const weft::StreamPlan plan = expression.plan_stream(device, sources, options);
  if (plan.refusal) throw *plan.refusal;
  const auto out = request.at("out").get<std::string>();
  std::optional<weft::io::NpyWriter> writer;
  const auto sink = [&](std::size_t axis, std::int64_t begin, std::int64_t end, std::span<const std::byte> bytes) {
    if (!writer) writer.emplace(out, weft::io::file_dtype(type.dtype), type.shape);
    writer->write(axis, begin, end, bytes);
  };
  const std::optional<weft::Tensor> whole = expression.stream(device, sources, sink, options);
  if (whole) weft::cli::save(out, *whole, weft::cli::download(*whole));
  if (writer) writer->finish();
  json notes = json::array();
  for (const auto& [name, file] : files) {
    if (file.note()) notes.push_back(*file.note());
  }
  json answer = {{"ok", true},
                 {"dtype", to_string(type.dtype)},
                 {"shape", json::array()},
                 {"notes", notes},
                 {"blocks", plan.blocks},
                 {"passes", plan.passes},
                 {"bytes", plan.bytes},
                 {"cut", plan.inputs},
                 {"result_axis", plan.result_axis ? json(*plan.result_axis) : json()}};
  for (std::int64_t n : type.shape) answer["shape"].push_back(n);
  return answer;
}

json answer(const weft::Device& device, const json& request) {
  const std::string command = request.value("cmd", "");
  if (command.empty() && request.contains("stream")) return stream(device, request);
  if (command.empty()) return evaluate(device, request);
  if (command == "stats") {
    return {{"ok", true}, {"stats", to_json(weft::cli::Report{device.stats(), {}, {}})}};
  }
  if (command == "device") {
    return {{"ok", true}, {"device", weft::cli::device_json(device)}, {"f16", device.features().f16}};
  }
  throw weft::Error(weft::ErrorCode::invalid_argument, "eval_server: no command '" + command + "'",
                    "read the head of eval_server.cpp");
}

}  // namespace

int main() {
  try {
    const weft::Device device = weft::Device::open();
    for (std::string line; std::getline(std::cin, line);) {
      json id = nullptr;
      json out;
      try {
        const json request = json::parse(line);
        id = request.value("id", json());
        out = answer(device, request);
      } catch (const weft::Error& error) {
        out = {{"ok", false}, {"code", to_string(error.code())}, {"error", error.what()}};
      } catch (const json::exception& error) {
        out = {{"ok", false}, {"code", "bad_request"}, {"error", error.what()}};
      }
      out["id"] = id;
      std::cout << out.dump(-1, ' ', false, json::error_handler_t::replace) << "\n" << std::flush;
    }
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "eval_server: " << error.what() << "\n";
    return 1;
  }
}
