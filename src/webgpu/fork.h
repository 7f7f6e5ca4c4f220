// Processes that were forked after they had opened a device: drivers have threads, and a forked child has none of them.
#pragma once

namespace weft::webgpu {

/// From now on a fork makes its child one in which forked() is true, and which ends, when it exits, before the driver
/// waits for its threads. Safe from any thread; on Windows, where nothing forks, does nothing.
void mark_children_forked() noexcept;

/// Whether this process was forked after mark_children_forked: its devices can't be used, and no other can be opened.
bool forked() noexcept;

}  // namespace weft::webgpu
