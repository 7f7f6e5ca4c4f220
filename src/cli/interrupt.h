// cli/interrupt.h - Ctrl-C and other signals.
#pragma once

#include <filesystem>
#include <string>

namespace weft::cli {

/// From now on SIGINT and SIGTERM end the process at once, with status 130 and 143; SIGHUP, SIGQUIT and SIGPIPE (a
/// closed terminal, a reader that has left) as they do by default. None leaves an unfinished file. The driver frees
/// what the GPU holds. An input file that is cut short while it is mapped ends the process with a message and status
/// 2.
void install_interrupt_handler();

/// While one lives, a signal waits until the output file is whole; a second signal does not wait.
class HoldInterrupts {
 public:
  HoldInterrupts() noexcept;
  ~HoldInterrupts();
  HoldInterrupts(const HoldInterrupts&) = delete;
  HoldInterrupts& operator=(const HoldInterrupts&) = delete;
};

/// While one lives, a signal that ends the process removes this file. One at a time.
class UnfinishedFile {
 public:
  explicit UnfinishedFile(const std::filesystem::path& path);
  ~UnfinishedFile();
  UnfinishedFile(const UnfinishedFile&) = delete;
  UnfinishedFile& operator=(const UnfinishedFile&) = delete;

 private:
  std::string path_;
};

/// Tells the handler that a progress line stands on the terminal, to be cleared.
void set_line_visible(bool visible) noexcept;

}  // namespace weft::cli
