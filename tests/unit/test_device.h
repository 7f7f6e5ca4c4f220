// The one device of a test program: many devices leak on lavapipe. No adapter: the exception fails the test.
#pragma once

#include "weft/device.h"

namespace weft::testing {

inline Device& test_device() {
  static Device device = Device::open();
  return device;
}

}  // namespace weft::testing
