// weft tune - measures which kernels this device runs fastest, and keeps that.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/app.h"
#include "cli/error_report.h"
#include "cli/progress.h"
#include "cli/stats_report.h"
#include "weft/tune.h"

namespace weft::cli {
namespace {

struct Options {
  std::string device;
  std::vector<std::string> ops, dtypes, shapes;
  double budget = 30;
  bool again = false, dry_run = false, list = false, clear = false, json = false;
};

/// "[####......] 3 of 12, matmul f32 1024x1024x1024, 7 s of 30".
std::string bar(const TuneProgress& p, double budget) {
  constexpr std::size_t kWidth = 24;
  const double share = std::clamp(p.seconds / budget, 0.0, 1.0);
  const double part = p.total == 0 ? 0 : static_cast<double>(p.done) / static_cast<double>(p.total);
  const auto full = static_cast<std::size_t>(std::max(share, part) * kWidth);
  return fmt::format("[{}{}] {} of {}, {:.0f} of {:g} s, {}", std::string(full, '#'), std::string(kWidth - full, '.'),
                     p.done, p.total, p.seconds, budget, p.what);
}

std::string time_text(double seconds) {
  if (seconds >= 1) return fmt::format("{:.2f} s", seconds);
  return seconds >= 1e-3 ? fmt::format("{:.2f} ms", seconds * 1e3) : fmt::format("{:.1f} us", seconds * 1e6);
}

double gain(const TuneResult& r) {
  return r.seconds > 0 ? r.default_seconds / r.seconds : 1;
}

nlohmann::json result_json(const TuneResult& r) {
  return {{"op", r.op},
          {"shape", r.shape},
          {"key", r.key},
          {"plan", r.plan},
          {"default_seconds", r.default_seconds},
          {"seconds", r.seconds},
          {"control", r.control},
          {"candidates", r.candidates},
          {"slow", r.slow},
          {"failures", r.failures}};
}

/// A device to tune: the plain one and, where that differs, the one of programs that run the library's kernels alone.
struct Kind {
  KernelsOf kernels;
  std::string_view name;
};
std::vector<Kind> kinds() {
  if (!library_devices_tune_apart()) return {{KernelsOf::user, ""}};
  return {{KernelsOf::user, "devices for any kernels"}, {KernelsOf::library, "devices for library kernels alone"}};
}

void print_heading(const Kind& kind) {
  if (!kind.name.empty()) fmt::print("{}:\n", kind.name);
}

void print_report(const TuneReport& report) {
  if (!report.results.empty()) {
    fmt::print("{:40} {:>10} {:>10} {:>7} {:>8}  {}\n", "", "default", "tuned", "gain", "control", "plan");
    for (const TuneResult& r : report.results) {
      fmt::print("{:40} {:>10} {:>10} {:>6.2f}x {:>8}  {}\n", r.op + " " + r.shape, time_text(r.default_seconds),
                 time_text(r.seconds), gain(r), r.control > 0 ? fmt::format("{:.2f}x", r.control) : "", r.plan);
      for (const std::string& failure : r.failures) fmt::print("    dropped: {}\n", failure);
    }
    fmt::print("Control: what the plan that ships differs from itself by, in the turns that the gain is taken from.\n");
  }
  fmt::print(
      "{} shape{} in {:.1f} s by the {} clock; {} had a choice; {} with one kernel alone; {} left for lack of time\n",
      report.results.size(), report.results.size() == 1 ? "" : "s", report.seconds,
      report.gpu_times ? "device's" : "host's", report.stored_before, report.without_choice, report.left);
}

TuneOptions tune_options(const Options& options) {
  if (!(options.budget > 0 && options.budget <= 86400)) {
    throw Error(ErrorCode::invalid_argument, fmt::format("--budget is {}", options.budget),
                "give seconds above 0 and up to 86400, such as 30");
  }
  TuneOptions out;
  out.ops = options.ops;
  out.shapes = options.shapes;
  for (const std::string& name : options.dtypes) {
    const auto dtype = parse_dtype(name);
    if (!dtype) {
      throw Error(ErrorCode::invalid_argument, fmt::format("--dtypes: there is no dtype '{}'", name.substr(0, 60)),
                  "use float32 or float16");
    }
    out.dtypes.push_back(*dtype);
  }
  out.again = options.again;
  out.keep = !options.dry_run;
  return out;
}

void measure(const Options& options) {
  TuneOptions with = tune_options(options);
  const std::vector<Kind> all = kinds();
  const double budget = options.budget / static_cast<double>(all.size());
  with.budget = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(budget));
  nlohmann::json out;
  for (const Kind& kind : all) {
    const Device device = open_device(options.device, kind.kernels);
    Progress progress;
    std::string shown;
    with.progress = [&](const TuneProgress& p) {
      std::string line = bar(p, budget);
      if (line != shown) progress.phase(line);
      shown = std::move(line);
      return true;
    };
    const TuneReport report = tune(device, with);
    progress.finish();
    if (!options.json) {
      print_heading(kind);
      print_report(report);
      continue;
    }
    out["device"] = device_json(device);
    out["kept"] = with.keep;
    nlohmann::json run = {{"library_kernels_only", kind.kernels == KernelsOf::library},
                          {"results", nlohmann::json::array()},
                          {"stored_before", report.stored_before},
                          {"without_choice", report.without_choice},
                          {"left", report.left},
                          {"gpu_times", report.gpu_times},
                          {"seconds", report.seconds}};
    for (const TuneResult& r : report.results) run["results"].push_back(result_json(r));
    out["runs"].push_back(std::move(run));
  }
  if (options.json) {
    fmt::print("{}\n", json_text(out));
  } else if (options.dry_run) {
    fmt::print("Only measured; nothing was kept.\n");
  }
}

void list(const Options& options) {
  nlohmann::json out;
  for (const Kind& kind : kinds()) {
    const Device device = open_device(options.device, kind.kernels);
    const std::vector<TunedChoice> choices = tuned_choices(device);
    if (options.json) {
      out["device"] = device_json(device);
      nlohmann::json part = {{"library_kernels_only", kind.kernels == KernelsOf::library},
                             {"choices", nlohmann::json::array()}};
      for (const TunedChoice& c : choices) part["choices"].push_back({{"key", c.key}, {"plan", c.plan}});
      out["tables"].push_back(std::move(part));
      continue;
    }
    print_heading(kind);
    for (const TunedChoice& c : choices) fmt::print("{:52} {}\n", c.key, c.plan);
    fmt::print("{} stored choice{} for {}, {}\n", choices.size(), choices.size() == 1 ? "" : "s", device.adapter().name,
               device.adapter().driver);
  }
  if (options.json) fmt::print("{}\n", json_text(out));
}

void clear(const Options& options) {
  nlohmann::json out;
  for (const Kind& kind : kinds()) {
    const Device device = open_device(options.device, kind.kernels);
    const std::size_t count = tuned_choices(device).size();
    clear_tuned_choices(device);
    if (options.json) {
      out["device"] = device_json(device);
      out["tables"].push_back({{"library_kernels_only", kind.kernels == KernelsOf::library}, {"forgotten", count}});
      continue;
    }
    print_heading(kind);
    fmt::print("{} choice{} forgotten\n", count, count == 1 ? "" : "s");
  }
  if (options.json) fmt::print("{}\n", json_text(out));
}

void run_tune(const Options& options) {
  const bool measures =
      !options.ops.empty() || !options.shapes.empty() || !options.dtypes.empty() || options.again || options.dry_run;
  if ((options.list && options.clear) || ((options.list || options.clear) && measures)) {
    throw Error(ErrorCode::invalid_argument, "tune: --list and --clear go alone",
                "give one of them, with --device only");
  }
  if (options.list) {
    list(options);
  } else if (options.clear) {
    clear(options);
  } else {
    measure(options);
  }
}

}  // namespace

void add_tune(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "tune", "Measure which kernels this device runs fastest, and keep that for all programs that use Weft");
  command
      ->add_option("--ops", options->ops,
                   "Tune these only: matmul, attention, rows (softmax, norms), reduce, matmul_int8, conv")
      ->delimiter(',');
  command->add_option("--dtypes", options->dtypes, "For these only: float32, float16, uint32 (matmul_int8)")
      ->delimiter(',');
  command
      ->add_option(
          "--shapes", options->shapes,
          "Of the one op named: MxNxK for matmul (a t behind it: the second matrix lies turned); for conv batch x "
          "channels x height x width x filters x window, then /stride, then g and groups; for attention batch x heads "
          "x kv heads x queries x keys x dim; for rows and reduce ROWSxLENGTH (a t behind it: along the first axis)")
      ->delimiter(',');
  command->add_option("--budget", options->budget, "Seconds; no shape is begun after them (30)");
  command->add_flag("--again", options->again, "Also measure what has a choice already");
  command->add_flag("--dry-run", options->dry_run, "Measure and print, keep nothing");
  command->add_flag("--list", options->list, "Show the stored choices of this device");
  command->add_flag("--clear", options->clear, "Forget the stored choices of this device");
  command->add_option("--device", options->device, "Part of an adapter's name, or its index (see weft info)");
  command->add_flag("--json", options->json, "Print one JSON object on stdout");
  command->footer(
      "Examples:\n"
      "  weft tune\n"
      "  weft tune --budget 300\n"
      "  weft tune --ops matmul --shapes 4096x11008x4096t,1x4096x4096t --dtypes float16\n"
      "  weft tune --ops attention --shapes 1x32x8x1x8192x128\n"
      "  weft tune --list\n"
      "The op that has had the least time goes on next, so that each has its share of the budget.\n"
      "Each choice is stored as soon as it is made, beside the compiled pipelines ($XDG_CACHE_HOME/weft/tuning), for "
      "this\n"
      "device, driver and WebGPU implementation; a second run goes on where the first one stopped. WEFT_TUNE=off "
      "makes\n"
      "programs ignore them. Nothing else ever measures. Needs the device for itself. On Dawn half of the budget each "
      "goes to\n"
      "devices that run anybody's kernels, and to those for library kernels alone (weft eval), which have no bounds "
      "checks.");
  command->callback([options] { run_tune(*options); });
}

}  // namespace weft::cli
