// weft info - what there is to run on.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/app.h"
#include "cli/error_report.h"
#include "cli/stats_report.h"
#include "weft/device.h"
#include "weft/tune.h"

namespace weft::cli {
namespace {

nlohmann::json limits_json(const Limits& l) {
  return {
      {"max_buffer_size", l.max_buffer_size},
      {"max_storage_binding_size", l.max_storage_binding_size},
      {"max_uniform_binding_size", l.max_uniform_binding_size},
      {"max_storage_buffers", l.max_storage_buffers},
      {"max_workgroup_size", {l.max_workgroup_size_x, l.max_workgroup_size_y, l.max_workgroup_size_z}},
      {"max_workgroup_invocations", l.max_workgroup_invocations},
      {"max_workgroup_storage", l.max_workgroup_storage},
      {"max_workgroups_per_dimension", l.max_workgroups_per_dimension},
      {"min_storage_offset_alignment", l.min_storage_offset_alignment},
      {"min_uniform_offset_alignment", l.min_uniform_offset_alignment},
      {"max_immediate_size", l.max_immediate_size},
  };
}

/// As "f16>f32 16x16x16".
std::vector<std::string> subgroup_matrices(const Features& f) {
  std::vector<std::string> out;
  out.reserve(f.subgroup_matrices.size());
  for (const SubgroupMatrix& s : f.subgroup_matrices) {
    out.push_back(fmt::format("{}>{} {}x{}x{}", s.in, s.out, s.m, s.n, s.k));
  }
  return out;
}

nlohmann::json features_json(const Features& f) {
  return {
      {"f16", f.f16},
      {"subgroups", f.subgroups},
      {"timestamps", f.timestamps},
      {"immediates", f.immediates},
      {"subgroup_min_size", f.subgroup_min_size},
      {"subgroup_max_size", f.subgroup_max_size},
      {"subgroup_matrices", subgroup_matrices(f)},
  };
}

nlohmann::json adapter_json(const AdapterInfo& a) {
  return {
      {"index", a.index},
      {"name", a.name},
      {"vendor", a.vendor},
      {"driver", a.driver},
      {"backend", a.backend},
      {"type", to_string(a.type)},
      {"vendor_id", a.vendor_id},
      {"device_id", a.device_id},
      {"limits", limits_json(a.limits)},
      {"features", features_json(a.features)},
  };
}

std::string features_text(const Features& f) {
  std::string out;
  const auto add = [&](bool has, const std::string& name) {
    if (has) out += (out.empty() ? "" : ", ") + name;
  };
  add(f.f16, "f16");
  // Some adapters do not tell the sizes.
  add(f.subgroups, f.subgroup_max_size == 0
                       ? std::string("subgroups")
                       : fmt::format("subgroups of {} to {}", f.subgroup_min_size, f.subgroup_max_size));
  add(!f.subgroup_matrices.empty(), fmt::format("subgroup matrices ({})", fmt::join(subgroup_matrices(f), ", ")));
  add(f.timestamps, "timestamps");
  add(f.immediates, "immediates");
  return out.empty() ? "none of the optional ones" : out;
}

void print_adapter(const AdapterInfo& a, bool opened) {
  const Limits& l = a.limits;
  fmt::print("{} {} {}\n", opened ? "*" : " ", a.index, a.name);
  fmt::print("      {} by {}, {}{}{}\n", to_string(a.type), a.backend, a.vendor, a.driver.empty() ? "" : ", ",
             a.driver);
  fmt::print("      features   {}\n", features_text(a.features));
  fmt::print("      buffers    {} each, {} in one binding, {} storage bindings\n", bytes_text(l.max_buffer_size),
             bytes_text(l.max_storage_binding_size), l.max_storage_buffers);
  fmt::print("      workgroups {} x {} x {}, {} threads, {} of memory, {} groups an axis\n", l.max_workgroup_size_x,
             l.max_workgroup_size_y, l.max_workgroup_size_z, l.max_workgroup_invocations,
             bytes_text(l.max_workgroup_storage), l.max_workgroups_per_dimension);
  fmt::print("      immediates {}; offsets in steps of {} (storage) and {} (uniform)\n",
             bytes_text(l.max_immediate_size), l.min_storage_offset_alignment, l.min_uniform_offset_alignment);
}

void info(const std::string& wanted, bool memory, bool json) {
  const std::vector<AdapterInfo> adapters = Device::adapters();
  if (!json) {
    fmt::print("weft {}, {} {}\n", version(), implementation_name(), implementation_version());
    std::fflush(stdout);
  }
  // Without an adapter the error of opening says what was probed.
  const Device device = open_device(wanted);
  const std::size_t opened = device.adapter().index;
  if (json) {
    nlohmann::json out = {
        {"weft", version()},
        {"implementation", {{"name", implementation_name()}, {"version", implementation_version()}}},
        {"adapters", nlohmann::json::array()},
        {"opened", opened},
        {"device", {{"limits", limits_json(device.limits())}, {"features", features_json(device.features())}}}};
    out["tuned_choices"] = tuned_choices(device).size();
    if (memory) out["memory"] = nlohmann::json::parse(device.memory().to_json());
    for (const AdapterInfo& a : adapters) out["adapters"].push_back(adapter_json(a));
    fmt::print("{}\n", json_text(out));
    return;
  }
  fmt::print("{} adapter{}; * is the one that would be opened\n", adapters.size(), adapters.size() == 1 ? "" : "s");
  for (const AdapterInfo& a : adapters) print_adapter(a, a.index == opened);
  const std::size_t tuned = tuned_choices(device).size();
  fmt::print("{} stored choice{} of kernels for it{}\n", tuned, tuned == 1 ? "" : "s",
             tuned == 0 ? "; weft tune makes them" : " (weft tune --list)");
  if (memory) fmt::print("{}", device.memory().to_text());
}

}  // namespace

void add_info(CLI::App& app) {
  struct Options {
    std::string device;
    bool memory = false;
    bool json = false;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("info", "Show the adapters, their limits and features, and which one is used");
  command->add_flag("--memory", options->memory,
                    "Also show the memory of the opened device: what is live and kept for reuse, and the caps");
  command->add_flag("--json", options->json, "Print one JSON object on stdout");
  command->add_option("--device", options->device, "Part of an adapter's name, or its index");
  command->footer(
      "Examples:\n"
      "  weft info\n"
      "  weft info --json\n"
      "  WEFT_POOL_BYTES=512M weft info --memory\n"
      "  WEFT_ADAPTER=llvmpipe weft info");
  command->callback([options] { info(options->device, options->memory, options->json); });
}

}  // namespace weft::cli
