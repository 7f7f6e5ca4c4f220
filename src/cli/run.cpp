// weft run - a user's own kernel over array files.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/refuse.h"
#include "cli/app.h"
#include "cli/arrays.h"
#include "cli/common_options.h"
#include "cli/error_report.h"
#include "cli/progress.h"
#include "cli/run_options.h"
#include "cli/stats_report.h"
#include "dispatch/reflect.h"
#include "weft/io.h"
#include "weft/kernel.h"
#include "weft/ops.h"
#include "weft/stream.h"

namespace weft::cli {
namespace {

struct RunOptions {
  std::string source;
  std::vector<std::string> inputs;
  std::vector<std::string> arrays;  // --out
  std::vector<std::string> files;   // -o
  std::vector<std::string> constants;
  std::vector<std::string> params;
  std::string groups = "auto";
  std::string entry = "main";
  CommonOptions common;
};

/// What the command line means, checked against the source; needs no device.
struct Job {
  KernelOptions kernel;
  dispatch::Reflection reflected;
  std::map<std::string, io::HostArray> inputs;
  std::vector<OutputArray> arrays;
  std::vector<std::pair<std::string, std::string>> files;  // binding, path
  std::optional<Grid> groups;
  std::vector<std::byte> params;
  std::uint64_t bytes = 0;
};

std::string read_source(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) {  // libstdc++ opens one, and throws on reading
    std::ifstream in(path, std::ios::binary);
    std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    if (in) return text;
  }
  throw Error(ErrorCode::io_error, fmt::format("{}: can't be read", path), "check the path and its permissions");
}

const dispatch::ReflectedBinding* find_binding(const Job& job, const std::string& name) {
  const auto& all = job.reflected.bindings;
  const auto it = std::find_if(all.begin(), all.end(), [&](const auto& b) { return b.info.name == name; });
  return it == all.end() ? nullptr : &*it;
}

void check_names(const Job& job, const std::string& source) {
  std::vector<std::string> declared;
  declared.reserve(job.reflected.bindings.size());
  for (const auto& b : job.reflected.bindings) declared.push_back(b.info.name);
  const auto check_declared = [&](const std::string& name, const char* how) {
    if (find_binding(job, name) != nullptr) return;
    refuse(fmt::format("{}: {} names '{}', which is no binding{}; the source has {}", source, how, name,
                       suggestion(name, declared), list_of(declared)),
           "use the names of the source");
  };
  const auto check_elements = [](const std::string& name, const Shape& shape) {
    if (element_count(shape) > 0) return;
    refuse(fmt::format("'{}' has shape {}: a kernel binds no array without elements", name, to_string(shape)),
           "leave the kernel out where there is nothing to do");
  };
  std::vector<std::string> given;
  for (const auto& [name, array] : job.inputs) {
    check_declared(name, "an input");
    check_elements(name, array.shape);
    given.push_back(name);
  }
  for (const OutputArray& a : job.arrays) {
    check_declared(a.name, "--out");
    if (std::find(given.begin(), given.end(), a.name) != given.end()) {
      refuse(fmt::format("'{}' is given twice", a.name), "give it as an input or by --out, once");
    }
    if (!find_binding(job, a.name)->info.writable) {
      refuse(fmt::format("--out {}: the source only reads it", a.name), "declare it var<storage, read_write>");
    }
    check_elements(a.name, a.shape);
    given.push_back(a.name);
  }
  std::vector<std::string> missing;
  for (const auto& b : job.reflected.bindings) {
    if (b.used && std::find(given.begin(), given.end(), b.info.name) == given.end()) missing.push_back(b.info.name);
  }
  if (!missing.empty()) {
    const bool writable = find_binding(job, missing.front())->info.writable;
    refuse(fmt::format("{}: nothing is bound to {}", source, list_of(missing)),
           writable ? fmt::format("add --out {0}:DTYPE:SHAPE, or {0}=FILE", missing.front())
                    : fmt::format("add {}=FILE", missing.front()));
  }
  for (const auto& [name, path] : job.files) {
    if (std::find(given.begin(), given.end(), name) != given.end()) continue;
    refuse(fmt::format("-o {}={}: '{}' is bound to nothing{}", name, path, name, suggestion(name, given)),
           fmt::format("save one of {}", list_of(given)));
  }
}

Job prepare(const RunOptions& options) {
  Job job;
  job.kernel.file = options.source;
  job.kernel.source = read_source(options.source);
  job.kernel.label = job.kernel.file.filename().string();
  job.kernel.entry_point = options.entry;
  if (job.kernel.source.empty()) {
    throw Error(ErrorCode::compile_error, fmt::format("{}: the file is empty", options.source),
                "write a kernel into it");
  }
  add_constants(options.constants, job.kernel.source, job.kernel);
  job.reflected =
      dispatch::reflect(job.kernel.source, options.entry, job.kernel.constants, job.kernel.overrides, options.source);
  job.groups = parse_groups(options.groups);
  for (const std::string& text : options.arrays) {
    OutputArray array = parse_output_array(text);
    const bool twice =
        std::any_of(job.arrays.begin(), job.arrays.end(), [&](const auto& a) { return a.name == array.name; });
    if (twice) refuse(fmt::format("--out {}: given twice", array.name), "give each name once");
    job.arrays.push_back(std::move(array));
  }
  for (const std::string& text : options.files) {
    auto [name, given] = split_assignment(text, "NAME=FILE");
    std::string path = output_path(given, options.common.json);
    for (const auto& [other, same] : job.files) {
      if (is_same_file(same, path))
        refuse(fmt::format("-o {}: given for '{}' and for '{}'", path, other, name), "use two files");
    }
    check_output(path);
    check_trace_file(options.common.trace, path);
    job.files.emplace_back(std::move(name), std::move(path));
  }
  const bool own_params = job.reflected.params_declared_by_user;
  job.params =
      own_params && options.params.empty()
          ? std::vector<std::byte>()
          : pack_params(options.params,
                        own_params ? std::span<const ParamInfo>() : std::span<const ParamInfo>(job.reflected.params),
                        own_params ? 0 : job.reflected.params_size);
  for (const std::string& word : options.inputs) {
    const auto [name, path] = split_assignment(word, "name=FILE");
    if (job.inputs.contains(name)) refuse(fmt::format("'{}' is given twice", name), "give each name once");
    if (parse_number(path)) {
      refuse(fmt::format("{}: a kernel's array can't be a number", word),
             fmt::format("pass it as --param {}, or write ./{} for a file of that name", word, path));
    }
    io::HostArray array = load_array(input_path(path), options.common);
    job.bytes += array.bytes.size();
    job.inputs.emplace(name, std::move(array));
  }
  check_names(job, options.source);
  return job;
}

/// One thread an element of the first output array, or else of the first array that the kernel writes.
std::optional<std::uint64_t> auto_elements(const Job& job, const std::map<std::string, Tensor>& tensors) {
  if (!job.arrays.empty()) return static_cast<std::uint64_t>(element_count(job.arrays.front().shape));
  for (const auto& b : job.reflected.bindings) {
    if (b.info.writable && tensors.contains(b.info.name)) {
      return static_cast<std::uint64_t>(tensors.at(b.info.name).size());
    }
  }
  return std::nullopt;
}

Grid grid_of(const Job& job, const Kernel& kernel, const Device& device, const std::map<std::string, Tensor>& tensors) {
  if (job.groups) return *job.groups;
  const auto elements = auto_elements(job, tensors);
  if (!elements) refuse("--groups auto: the kernel writes no array to count by", "give the groups: --groups X[,Y[,Z]]");
  const auto size = kernel.workgroup_size();
  if (size[0] == 0 || size[1] != 1 || size[2] != 1) {
    refuse(fmt::format("--groups auto: the workgroup has {} x {} x {} threads, and auto goes over one axis", size[0],
                       size[1], size[2]),
           "give the groups: --groups X,Y");
  }
  const Grid folded = kernel.grid(grid_for(*elements));
  if (folded.y == 1 || job.reflected.uses_linear_index) return folded;
  const std::uint64_t groups = (*elements + size[0] - 1) / size[0];
  const std::uint32_t limit = device.limits().max_workgroups_per_dimension;
  if (groups <= limit) return {static_cast<std::uint32_t>(groups), 1, 1};
  refuse(fmt::format("--groups auto: {} groups are over the limit of {} on one axis", groups, limit),
         "index by linear_index(id), which counts over several axes");
}

struct Output {
  std::string name;
  std::string path;  // empty: printed
};

std::vector<Output> outputs_of(const Job& job) {
  std::vector<Output> out;
  out.reserve(job.files.size());
  for (const auto& [name, path] : job.files) out.push_back({name, path});
  if (!out.empty()) return out;
  for (const OutputArray& a : job.arrays) out.push_back({a.name, ""});
  return out;
}

void run_kernel(const RunOptions& options) {
  Report report;
  Progress progress(!options.common.no_progress);
  std::optional<Job> job;
  {
    const Stopwatch watch(report.times.load);
    progress.phase("loading");
    check_trace_file(options.common.trace, {});
    job = prepare(options);
  }
  std::optional<Device> device;
  {
    const Stopwatch watch(report.times.open);
    progress.phase("opening the device");
    device = open_device(options.common.device);
  }
  std::optional<Profiler> profiler = start_profile(options.common.trace, *device);
  progress.phase("compiling");
  const Kernel kernel = device->kernel(job->kernel);

  std::map<std::string, Tensor> tensors;
  {
    const Stopwatch watch(report.times.upload);
    progress.phase("uploading", job->bytes);
    for (const auto& [name, array] : job->inputs) {
      const bool uniform = find_binding(*job, name)->info.uniform;
      const Tensor as_stored =
          upload(*device, array, &progress, uniform ? kDefaultUsage | Usage::uniform : kDefaultUsage);
      if (uniform && !as_stored.is_contiguous()) {
        refuse(fmt::format("'{}' is a uniform, and its file is in Fortran order", name), "save it in C order");
      }
      tensors.emplace(name, contiguous(as_stored));
    }
    job->inputs.clear();
    for (const OutputArray& a : job->arrays) tensors.emplace(a.name, device->zeros(a.shape, a.dtype));
  }
  {
    const Stopwatch watch(report.times.compute);
    progress.phase("computing");
    std::vector<NamedBinding> bindings;
    bindings.reserve(tensors.size());
    for (const auto& [name, tensor] : tensors) bindings.push_back({name, BindingRange(tensor)});
    kernel(device->stream(), bindings, job->params, grid_of(*job, kernel, *device, tensors));
    device->synchronize();
  }
  nlohmann::json results = nlohmann::json::object();
  std::vector<std::pair<Output, HostBytes>> done;
  for (const Output& output : outputs_of(*job)) {
    const Stopwatch watch(report.times.read);
    const Tensor& tensor = tensors.at(output.name);
    progress.phase("reading " + output.name, tensor.nbytes());
    done.emplace_back(output, download(tensor, &progress));
  }
  const std::optional<Trace> trace = finish_profile(profiler);
  for (const auto& [output, bytes] : done) {
    const Stopwatch watch(report.times.save);
    const Tensor& tensor = tensors.at(output.name);
    if (!output.path.empty()) save(output.path, tensor, bytes);
    nlohmann::json entry = {{"shape", nlohmann::json::array()}, {"dtype", to_string(tensor.dtype())}};
    for (std::int64_t n : tensor.shape()) entry["shape"].push_back(n);
    if (!output.path.empty())
      entry["file"] = output.path;
    else if (tensor.size() <= options.common.threshold) {
      entry["values"] = values_json(bytes.data.get(), tensor.shape(), tensor.dtype());
    }
    results[output.name] = std::move(entry);
  }
  progress.finish();

  report.work = device->stats();
  report.times.compile = report.work.compile_ms;
  if (options.common.stats) print_stats(report);
  report_profile(options.common.trace, trace);
  if (options.common.json) {
    const nlohmann::json out = {{"results", results}, {"device", device_json(*device)}, {"stats", to_json(report)}};
    fmt::print("{}\n", json_text(out));
    return;
  }
  for (const auto& [output, bytes] : done) {
    if (!output.path.empty()) continue;
    const Tensor& tensor = tensors.at(output.name);
    if (done.size() > 1) fmt::print("{}:\n", output.name);
    fmt::print("{}\n", io::format_array(io::file_dtype(tensor.dtype()), tensor.shape(), bytes.span(),
                                        static_cast<std::size_t>(options.common.threshold)));
  }
}

}  // namespace

void add_run(CLI::App& app) {
  const auto options = std::make_shared<RunOptions>();
  CLI::App* command = app.add_subcommand("run", "Run a WGSL kernel of your own over array files");
  command->add_option("KERNEL", options->source, "The WGSL file")->required();
  command->add_option("INPUTS", options->inputs,
                      "name=FILE for each array that the kernel binds; - is the standard input");
  const auto add_list = [&](const char* name, std::vector<std::string>& to, const char* text) {
    command->add_option(name, to, text)->allow_extra_args(false);
  };
  add_list("--out", options->arrays, "NAME:DTYPE:SHAPE, an output array of zeros, bound by that name; can be repeated");
  add_list(
      "-o,--save", options->files,
      "NAME=FILE, saves a bound array as .npy, - on the standard output; can be repeated; without it the --out arrays "
      "are printed");
  add_list("--set", options->constants, "NAME=VALUE, an override of the source, or else a constant in front of it");
  add_list("--param", options->params, "name=VALUE, a member of the source's 'struct Params'");
  command->add_option("--groups", options->groups,
                      "X[,Y[,Z]] workgroups, or auto (the default): one thread an element of the first --out array");
  command->add_option("--entry", options->entry, "The entry point (main)");
  add_common_options(*command, options->common);
  command->footer(
      "Examples:\n"
      "  weft run saxpy.wgsl x=x.npy y=y.npy --param a=2.0 --param n=1000 --groups 4 -o y=out.npy\n"
      "  weft run saxpy.wgsl x=x.npy y=y.npy --param a=2.0 --param n=1000 -o y=out.npy --profile --trace trace.json\n"
      "  weft run mul.wgsl x=x.npy y=y.npy --out z:float32:1024,1024 --set TILE=16 --param n=1024 -o z=z.npy\n"
      "The kernel may use params.NAME, and linear_index(id) for --groups auto past 65535 groups.");
  command->callback([options] { run_kernel(*options); });
}

}  // namespace weft::cli
