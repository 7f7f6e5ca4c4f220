#include "cli/app.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "cli/error_report.h"
#include "cli/interrupt.h"
#include "cli/process.h"
#include "expr/diagnostic.h"
#include "expr/names.h"
#include "weft/device.h"
#include "weft/error.h"

namespace weft::cli {
namespace {

bool is_option(const CLI::App& command, std::string_view word) {
  if (word == "--" || word == "-h") return true;
  const bool is_long = word.starts_with("--");
  const std::string name(word.substr(is_long ? 2 : 1, is_long ? word.find('=') - 2 : std::string_view::npos));
  const auto options = command.get_options();
  return std::any_of(options.begin(), options.end(),
                     [&](const CLI::Option* o) { return is_long ? o->check_lname(name) : o->check_sname(name); });
}

/// `weft eval -x x=x.npy`: an expression may begin with a sign. Where the expression is still to come, a word with a
/// dash that is no option of ours is it; a blank in front keeps the parser from taking it for one.
void protect_expression(const CLI::App& command, std::vector<std::string>& words) {
  for (std::size_t i = 1; i < words.size(); ++i) {
    std::string& word = words[i];
    if (word == "--") return;
    if (!word.starts_with('-') || word == "-") return;
    if (!is_option(command, word)) {
      word.insert(0, " ");
      return;
    }
    const bool takes_value = word == "-o" || word == "--output" || word == "--device" || word == "--threshold" ||
                             word == "--trace" || word == "--memory" || word == "--block-bytes";
    if (takes_value) ++i;
  }
}

void check_command(const std::vector<std::string>& words) {
  static constexpr std::string_view kCommands[] = {"eval", "run", "info", "bench", "tune"};
  if (words.empty() || words[0].starts_with('-')) return;
  if (std::find(std::begin(kCommands), std::end(kCommands), words[0]) != std::end(kCommands)) return;
  const auto near = expr::nearest(words[0], kCommands);
  throw Error(ErrorCode::invalid_argument,
              "there is no command '" + expr::excerpt(words[0]) + "'" +
                  (near ? " (did you mean '" + *near + "'?)" : std::string()),
              "use eval, run, info, bench or tune; see weft --help");
}

/// What the parser says of a faulty option, in plain words.
std::string usage_text(const CLI::ParseError& error) {
  std::string text = error.what();
  std::replace(text.begin(), text.end(), '\n', ' ');
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    const std::string option = text.substr(0, text.find(':'));
    if (text.ends_with(" missing")) return option + " is given without a value";
    constexpr std::string_view kMany = "At Most 1 required but received ";
    const std::size_t many = text.find(kMany);
    if (many != std::string::npos) return option + " is given " + text.substr(many + kMany.size()) + " times";
  }
  constexpr std::string_view kConversion = "Could not convert: ";
  const std::size_t value = text.find(" = ");
  if (text.starts_with(kConversion) && value != std::string::npos) {
    return text.substr(kConversion.size(), value - kConversion.size()) + " does not take '" + text.substr(value + 3) +
           "'";
  }
  return text;
}

int report_usage(const CLI::App& app, const CLI::ParseError& error) {
  const auto used = app.get_subcommands();
  std::string name = "weft";
  if (!used.empty()) name += " " + used.front()->get_name();
  print_error(Error(ErrorCode::invalid_argument, usage_text(error), "see " + name + " --help"));
  return kUserError;
}

}  // namespace

int run(int argc, char** argv) {
  prepare_process();
  CLI::App app("Array work on any GPU that has WebGPU.", "weft");
  app.set_version_flag("--version", std::string("weft ") + std::string(version()) + " (" +
                                        std::string(implementation_name()) + " " + implementation_version() + ")");
  app.require_subcommand(1);
  app.footer(
      "Examples:\n"
      "  weft info\n"
      "  weft eval 'softmax(x @ w + b, axis=1)' x=x.npy w=model.safetensors:head.weight b=b.npy -o p.npy\n"
      "  weft run examples/blur.wgsl image=in.npy --out result:f32:1024,1024 --param width=1024 --param radius=3 -o "
      "result=out.npy\n"
      "  weft bench\n"
      "  weft tune\n"
      "See weft COMMAND --help.");
  add_eval(app);
  add_run(app);
  add_info(app);
  add_bench(app);
  add_tune(app);

  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  if (!words.empty() && words[0] == "eval") protect_expression(*app.get_subcommand("eval"), words);
  install_interrupt_handler();
  try {
    check_command(words);
    std::reverse(words.begin(), words.end());  // as CLI11 takes them
    try {
      app.parse(words);
    } catch (const CLI::Success& help) {  // --help, --version
      app.exit(help);
    } catch (const std::system_error& error) {  // as printing throws it
      if (!standard_output_failed()) throw;
      finish_standard_output(error.code());
    }
    finish_standard_output();
    return 0;
  } catch (const CLI::ParseError& error) {
    return report_usage(app, error);
  } catch (const Error& error) {
    print_error(error);
    return exit_status(error);
  } catch (const std::bad_alloc&) {
    print_error(Error(ErrorCode::out_of_memory, "this machine has too little memory for that", "use smaller arrays"));
    return kDeviceFailure;
  } catch (const std::exception& error) {
    print_error(Error(ErrorCode::internal, error.what(), "report this, with the command line"));
    return kDeviceFailure;
  }
}

}  // namespace weft::cli
