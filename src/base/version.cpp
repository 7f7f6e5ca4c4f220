#include "weft/device.h"

namespace weft {
std::string_view version() noexcept {
  return WEFT_VERSION;
}
}  // namespace weft
