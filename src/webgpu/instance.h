// The process's WebGPU instance, and what differs between the implementations before a device exists.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "webgpu/handles.h"
#include "weft/device.h"

namespace weft::webgpu {

/// One adapter and what it says of itself.
struct Candidate {
  Adapter adapter;
  AdapterInfo info;
};

/// The one instance of the process: made at first use, never released (each instance keeps a file descriptor open, and
/// drivers dislike being unloaded at exit).
WGPUInstance instance();

/// All adapters, each once, in the implementation's order. Blocks for the drivers.
std::vector<Candidate> enumerate_adapters();

/// Fills an AdapterInfo (all but `index`) from the adapter.
AdapterInfo describe(WGPUAdapter adapter);

/// What a file on disk that holds for one device is named by: implementation, version, adapter and driver.
std::string device_identity(const AdapterInfo& adapter);

// -- what differs between implementations (implementation_wgpu.cpp, implementation_dawn.cpp), with implementation.h --

/// What tells this build of the library from another of the same version; empty where the version says it all.
std::string library_identity();
WGPUInstance create_instance();
std::vector<Adapter> list_adapters(WGPUInstance instance);
/// True when `adapter` can run kernels with immediates, and subgroups by whatever name this implementation has.
bool adapter_has_immediates(WGPUAdapter adapter);
bool adapter_has_subgroups(WGPUAdapter adapter);
/// The subgroup matrices that kernels of this adapter can use.
std::vector<SubgroupMatrix> adapter_subgroup_matrices(WGPUAdapter adapter);
/// The WGSL directive that a module needs in front so that it can use immediates; empty where none is needed.
std::string_view immediates_directive() noexcept;
/// The same for subgroups. Where it is empty the compiler refuses `enable subgroups;` although it knows the builtins.
std::string_view subgroups_directive() noexcept;
/// Do the library's own kernels keep bounds checks unless a whole device has none (request_device's `unchecked`)?
bool bounds_checks_by_device() noexcept;
/// Does an indirect dispatch with a grid over the device's limits run nothing, as WebGPU says (gpuweb/gpuweb#323)?
bool checks_indirect_grids() noexcept;
/// Uploads of so many bytes and more go by mapped staging memory rather than by a queue write (docs/memory.md has the
/// figures).
std::uint64_t staged_uploads_from(AdapterType type) noexcept;
/// Nanoseconds that one tick of a resolved timestamp stands for.
double timestamp_period(WGPUQueue queue);
/// What an error says of the loss of its device, where errors are all that tells of one; else empty.
std::string_view loss_in(std::string_view error) noexcept;
/// Makes a call that is an error if the device is lost, where errors are all that tells of one; else does nothing.
void ask_for_loss(WGPUDevice device);
/// Makes the implementation lose the device, for tests.
void lose(WGPUDevice device);
/// Lets the implementation deliver callbacks. Does not block; any thread.
void poll(WGPUInstance instance, WGPUDevice device);

}  // namespace weft::webgpu
