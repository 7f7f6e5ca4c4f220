#include "cli/process.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "weft/error.h"

namespace weft::cli {
namespace {

void open_missing_streams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(fd, F_GETFD) != -1 || errno != EBADF) continue;
    // The lowest free number is this one. Not for writing on standard output: what is printed there must not seem to
    // have arrived.
    if (open("/dev/null", fd == STDERR_FILENO ? O_WRONLY : O_RDONLY) != fd) return;
  }
}

bool is_set(const char* name) {
  const char* text = std::getenv(name);
  return text != nullptr && *text != '\0';
}

}  // namespace

void prepare_process() {
  open_missing_streams();
#ifdef SIGXFSZ
  std::signal(SIGXFSZ, SIG_IGN);
#endif
  // Mesa's layer asks Wayland and X which device the desktop uses. Where nothing says where they are, libwayland
  // complains on our standard error, four lines a run. The other two are the layer's own settings.
  const bool desktop = is_set("XDG_RUNTIME_DIR") || is_set("WAYLAND_DISPLAY") || is_set("DISPLAY");
  const bool is_told = is_set("MESA_VK_DEVICE_SELECT") || is_set("DRI_PRIME");
  if (!desktop && !is_told) setenv("NODEVICE_SELECT", "1", /*overwrite=*/0);
}

void finish_standard_output(std::error_code why) {
  if (std::fflush(stdout) != 0) why = std::error_code(errno, std::generic_category());
  if (!why && std::ferror(stdout) == 0) return;
  throw Error(ErrorCode::io_error, "standard output: cannot write" + (why ? ": " + why.message() : ""),
              "check what it is sent to");
}

bool standard_output_failed() noexcept {
  return std::ferror(stdout) != 0;
}

}  // namespace weft::cli
