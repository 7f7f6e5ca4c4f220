// cli/app.h - the command `weft`: its subcommands and its exit status.
#pragma once

namespace CLI {
class App;
}

namespace weft::cli {

/// 0: done. 1: the device failed, or there is none. 2: what was asked for can't be done (usage, expression, files,
/// shapes). 130: interrupted. All errors are one message on stderr.
inline constexpr int kDeviceFailure = 1;
inline constexpr int kUserError = 2;
inline constexpr int kInterrupted = 130;

/// Parses the command line and runs it. Returns the exit status; throws nothing.
int run(int argc, char** argv);

// Each adds its subcommand, with a callback that runs it and throws weft::Error.
void add_bench(CLI::App& app);
void add_eval(CLI::App& app);
void add_info(CLI::App& app);
void add_run(CLI::App& app);
void add_tune(CLI::App& app);

}  // namespace weft::cli
