#include "cli/interrupt.h"

#include <unistd.h>

#include <csignal>
#include <string_view>

#include "io/mapping.h"

namespace weft::cli {
namespace {

volatile std::sig_atomic_t held = 0;
volatile std::sig_atomic_t pending = 0;
volatile std::sig_atomic_t line_visible = 0;
const char* volatile unfinished = nullptr;

/// Signals whose status a shell tells apart from an end of our own making.
bool is_of_the_surroundings(int signal) {
  return signal == SIGPIPE || signal == SIGHUP || signal == SIGQUIT;
}

[[noreturn]] void leave(int signal) {
  if (line_visible != 0) {
    constexpr std::string_view kClear = "\r\x1b[2K";
    [[maybe_unused]] const auto written = write(STDERR_FILENO, kClear.data(), kClear.size());
  }
  if (unfinished != nullptr) unlink(unfinished);
  if (is_of_the_surroundings(signal)) {  // as without a handler, but for the file
    struct sigaction action = {};
    action.sa_handler = SIG_DFL;
    sigaction(signal, &action, nullptr);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, signal);
    sigprocmask(SIG_UNBLOCK, &set, nullptr);
    raise(signal);
  }
  _exit(128 + signal);
}

void handle(int signal) {
  if (held == 0 || pending != 0) leave(signal);
  pending = signal;
}

/// Reading a mapped file behind its new end. Drivers map files of their own, about which we can't tell.
void cut_short(int signal, siginfo_t* info, void*) {
  if (!io::in_mapped_file(info->si_addr)) {
    std::signal(signal, SIG_DFL);
    return;  // to the same fault
  }
  constexpr std::string_view kText =
      "weft: an input file became shorter while it was read\nFix: let the writer of the file finish first.\n";
  [[maybe_unused]] const auto written = write(STDERR_FILENO, kText.data(), kText.size());
  if (unfinished != nullptr) unlink(unfinished);
  _exit(2);
}

}  // namespace

void install_interrupt_handler() {
  struct sigaction action = {};
  action.sa_handler = handle;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE}) {
    struct sigaction before = {};
    // A shell starts background work with SIGINT ignored: that stays.
    if (sigaction(signal, nullptr, &before) == 0 && before.sa_handler == SIG_IGN) continue;
    sigaction(signal, &action, nullptr);
  }
  action = {};
  action.sa_sigaction = cut_short;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGBUS, &action, nullptr);
}

HoldInterrupts::HoldInterrupts() noexcept {
  held = 1;
}

HoldInterrupts::~HoldInterrupts() {
  held = 0;
  if (pending != 0) leave(pending);
}

UnfinishedFile::UnfinishedFile(const std::filesystem::path& path) : path_(path.string()) {
  unfinished = path_.c_str();
}

UnfinishedFile::~UnfinishedFile() {
  unfinished = nullptr;
}

void set_line_visible(bool visible) noexcept {
  line_visible = visible ? 1 : 0;
}

}  // namespace weft::cli
