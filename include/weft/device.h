// weft/device.h - one WebGPU device with its queue, pools and caches.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "weft/buffer.h"
#include "weft/dtype.h"
#include "weft/memory_report.h"
#include "weft/shape.h"
#include "weft/stats.h"

namespace weft {

class Graph;
class Kernel;
class PendingKernel;
struct KernelOptions;
class Stream;
class Tensor;
class Trace;

namespace detail {
struct DeviceState;

[[noreturn]] void refuse_host_elements(std::size_t count, std::size_t element_size);
/// `count` elements for a read to fill. Throws Error{out_of_memory} when the host has no room for them.
template <class T>
std::vector<T> host_elements(std::size_t count) {
  try {
    return std::vector<T>(count);
  } catch (const std::bad_alloc&) {     // refused below
  } catch (const std::length_error&) {  // no vector is that long
  }
  refuse_host_elements(count, sizeof(T));
}
}  // namespace detail

enum class AdapterType { discrete, integrated, virtual_gpu, cpu, unknown };
std::string_view to_string(AdapterType type) noexcept;

/// What an adapter can do; the device gets all of it.
struct Limits {
  std::uint64_t max_buffer_size = 0;           ///< bytes of one buffer, rounded down to a multiple of 4
  std::uint64_t max_storage_binding_size = 0;  ///< bytes that one storage binding can show to a kernel: below 2^32
  std::uint64_t max_uniform_binding_size = 0;
  std::uint32_t max_storage_buffers = 0;  ///< storage bindings of one kernel
  std::uint32_t max_workgroup_size_x = 0;
  std::uint32_t max_workgroup_size_y = 0;
  std::uint32_t max_workgroup_size_z = 0;
  std::uint32_t max_workgroup_invocations = 0;
  std::uint32_t max_workgroup_storage = 0;  ///< bytes of workgroup memory
  std::uint32_t max_workgroups_per_dimension = 0;
  std::uint32_t min_storage_offset_alignment = 256;
  std::uint32_t min_uniform_offset_alignment = 256;
  std::uint32_t max_immediate_size = 0;  ///< bytes of immediates (push constants); 0 when there are none
};

/// One product of small matrices that the threads of a subgroup do together (matrix units, "tensor cores"): an m x k
/// matrix of `in` by a k x n one, added up in `out`.
struct SubgroupMatrix {
  std::string_view in, out;  ///< WGSL's names: f16, f32, i8, u8, i32, u32
  std::uint32_t m = 0, n = 0, k = 0;
  bool operator==(const SubgroupMatrix&) const = default;
};

/// Optional features that kernels can use.
struct Features {
  bool f16 = false;         ///< `enable f16;`
  bool subgroups = false;   ///< `enable subgroups;`
  bool timestamps = false;  ///< GPU timestamps for the profiler
  bool immediates = false;  ///< parameters as immediates
  std::uint32_t subgroup_min_size = 0;
  std::uint32_t subgroup_max_size = 0;
  /// `enable chromium_experimental_subgroup_matrix;` when not empty. Dawn alone has them (2026).
  std::vector<SubgroupMatrix> subgroup_matrices;
};

/// One adapter as the implementation reports it.
struct AdapterInfo {
  std::size_t index = 0;  ///< position in Device::adapters()
  std::string name;       ///< "NVIDIA H200", "llvmpipe (LLVM 15.0.6, 256 bits)"
  std::string vendor;
  std::string driver;   ///< driver description
  std::string backend;  ///< "vulkan", "metal", "d3d12"
  AdapterType type = AdapterType::unknown;
  std::uint32_t vendor_id = 0;
  std::uint32_t device_id = 0;
  Limits limits;
  Features features;
};

enum class PowerPreference { high_performance, low_power };

/// Whether ops take the choices that weft::tune stored for this device (weft/tune.h). No device measures by itself.
enum class TuningMode : std::uint8_t {
  automatic,  ///< the variable WEFT_TUNE (off or read), else read
  off,        ///< the plans that ship
  read,       ///< stored choices, read once when the device is opened
};

/// How to open a device. Zero or empty means «the default»; each default can be set by the environment.
struct DeviceOptions {
  /// Part of an adapter's name (letter case ignored), or its index. Empty: the variable WEFT_ADAPTER, else the best.
  std::string adapter;
  PowerPreference power = PowerPreference::high_performance;
  /// Turn off features although the adapter has them; for tests and for comparing.
  bool allow_f16 = true;
  bool allow_subgroups = true;  ///< without them there are no subgroup matrices either
  bool allow_subgroup_matrices = true;
  bool allow_immediates = true;
  bool allow_timestamps = true;
  /// This device will run the library's own kernels alone, and refuse WGSL of the caller's (Error{unsupported}). Dawn
  /// can leave out the bounds checks of a whole device only, so this is what makes the library's kernels as fast there
  /// as on wgpu-native, where they never have them. The command `weft eval` opens its device so.
  bool library_kernels_only = false;
  /// Ask for no more than WebGPU's default limits, as a modest adapter would have.
  bool default_limits_only = false;
  TuningMode tuning = TuningMode::automatic;
  std::uint64_t pool_bytes = 0;      ///< cap of memory kept for reuse; WEFT_POOL_BYTES; 2 x max_storage_binding_size
  std::size_t bind_groups = 0;       ///< entries of the bind-group cache; WEFT_BIND_GROUPS; 256
  std::size_t pipelines = 0;         ///< entries of the pipeline cache; WEFT_PIPELINES; 1024
  std::size_t batch_dispatches = 0;  ///< a stream submits after so many; WEFT_BATCH_DISPATCHES; 128, or 1,024 on CPUs
  std::uint64_t batch_bytes = 0;     ///< ... or after work on this many bytes; WEFT_BATCH_BYTES; 1 GiB
  std::chrono::nanoseconds wait_timeout{0};  ///< longest wait without a deadline of its own; WEFT_WAIT_TIMEOUT; 30 s
};

/// Options of one read.
struct ReadOptions {
  /// Longest time to wait; none means the device's wait_timeout. Past it: Error{timed_out}, everything stays usable.
  std::optional<std::chrono::nanoseconds> deadline;
};

/// One of several reads: out.size() bytes of `buffer` from `offset`.
struct ReadRange {
  Buffer buffer;
  std::size_t offset = 0;
  std::span<std::byte> out;
};

/// A read on its way. Movable; dropping it gives the read up and leaks nothing. One thread at a time.
class Readback {
 public:
  Readback() noexcept;
  Readback(Readback&&) noexcept;
  Readback& operator=(Readback&&) noexcept;
  ~Readback();

  /// True once the bytes are there (or the read failed: then wait() throws). Does not block; polls the device.
  bool ready();
  /// Blocks until the bytes are there. Throws Error{timed_out} past the deadline (the read goes on; wait again),
  /// Error{device_lost} or Error{internal} when it failed.
  void wait(ReadOptions options = {});
  /// The bytes, in mapped memory that this object owns: valid while it lives. Waits first when needed.
  std::span<const std::byte> view();
  /// Gives the read up; the object is empty afterwards. What the device still does for it is thrown away.
  void cancel() noexcept;

  struct State;
  explicit Readback(std::unique_ptr<State> state) noexcept;

 private:
  std::unique_ptr<State> state_;
};

/// One WebGPU device with its queue, pools and caches. Copies share it; any thread may use it. The device lives as long
/// as a copy of it, a stream or a tensor of it does; buffers and kernels may be dropped after it. Moving one copies it:
/// no handle is ever empty.
class Device {
 public:
  Device(const Device&) = default;
  Device& operator=(const Device&) = default;
  ~Device() = default;

  /// Opens the adapter that `options` names. Blocks for the driver (milliseconds to a second). Throws
  /// Error{unsupported} when there is none, with what was probed, and Error{invalid_argument} when the wish matches
  /// none.
  static Device open(const DeviceOptions& options = {});
  /// All adapters the implementation shows. Never throws for «none»: the list is empty.
  static std::vector<AdapterInfo> adapters();

  /// Process-wide, starts at 1, never reused; the owner identity of its buffers.
  std::uint64_t id() const noexcept;
  const AdapterInfo& adapter() const noexcept;
  /// What this device has; at most what the adapter has.
  const Limits& limits() const noexcept;
  const Features& features() const noexcept;
  /// The longest wait of a call that has no deadline of its own.
  std::chrono::nanoseconds wait_timeout() const noexcept;
  bool lost() const noexcept;
  /// Ends the device now: everything that waits on it, and every later call, fails with Error{device_lost}; handles
  /// stay safe to drop, and the memory goes with the last of them.
  void destroy();

  // -- memory ---------------------------------------------------------------------------------------------------
  /// `size` bytes, 0 allowed; contents undefined (recycled memory is not cleared). Throws Error{out_of_memory} or,
  /// over Limits::max_buffer_size, Error{out_of_range} before any call to the driver; Error{invalid_argument} for a
  /// usage of nothing or with bits that Usage lacks.
  Buffer alloc(std::size_t size, Usage usage = kDefaultUsage);
  /// As alloc, cleared on the GPU, in order with recorded work.
  Buffer zeros_bytes(std::size_t size, Usage usage = kDefaultUsage);
  /// A new buffer that holds a copy of `bytes`; usage always gets copy_dst. `bytes` may go when the call returns.
  Buffer upload_bytes(std::span<const std::byte> bytes, Usage usage = kDefaultUsage);
  /// A new buffer whose bytes `fill` writes straight into mapped memory; `fill` gets exactly `size` bytes, each zero at
  /// first. What `fill` throws comes out of this call, and no buffer is made. Waits as write does.
  Buffer upload_with(std::size_t size, const std::function<void(std::span<std::byte>)>& fill,
                     Usage usage = kDefaultUsage);
  /// Writes `bytes` at `offset`, any alignment, byte exact, in order with work recorded before and after. `bytes` may
  /// go when the call returns. Checked before anything is written; but a large write goes in pieces, and when the
  /// device is lost or a wait times out on the way, the first of them are written. Waits, up to wait_timeout, while
  /// earlier uploads that the device has not taken hold 64 MiB of the host's memory: Error{timed_out}.
  void write(const Buffer& buffer, std::size_t offset, std::span<const std::byte> bytes);
  /// Reads [offset, offset + out.size()) after all work recorded so far that touches the buffer. Blocks, with a
  /// deadline until about then. When it throws, `out` is as it was, with one exception: a read of 8 MiB or more comes
  /// in pieces of 16 MiB (the last one shorter), and when the device is lost or a wait times out after the first piece
  /// came, the pieces so far are in `out`. With a deadline of its own that holds only for reads above 256 MiB.
  void read(const Buffer& buffer, std::size_t offset, std::span<std::byte> out, ReadOptions options = {});
  /// The same without waiting for the bytes. At most 256 MiB of reads are on their way at a time (or one larger one):
  /// past that, and past about 128 unfinished submits, the call waits for earlier ones, and throws Error{timed_out}
  /// past the device's wait_timeout.
  Readback read_async(const Buffer& buffer, std::size_t offset, std::size_t size);
  /// Reads several ranges, of one buffer or many, with one submit and one wait. Ranges of a buffer that touch or
  /// overlap become one copy. All are checked before anything is recorded; on an error no `out` has changed.
  void read_ranges(std::span<const ReadRange> ranges, ReadOptions options = {});
  /// `count` elements from element `first`, as T. Throws Error{out_of_memory} when the host has no room for them.
  template <class T>
  std::vector<T> read_as(const Buffer& buffer, std::size_t first, std::size_t count, ReadOptions options = {}) {
    static_assert(std::is_trivially_copyable_v<T> && !std::is_same_v<T, bool>, "read bool arrays as std::uint8_t");
    check_elements(buffer, first, count, sizeof(T));
    std::vector<T> out = detail::host_elements<T>(count);
    read(buffer, first * sizeof(T), std::as_writable_bytes(std::span<T>(out)), options);
    return out;
  }
  /// As many whole elements as the buffer has, as T.
  template <class T>
  std::vector<T> read_as(const Buffer& buffer, ReadOptions options = {}) {
    return read_as<T>(buffer, 0, buffer.size() / sizeof(T), options);
  }
  /// The live buffer with this id; nothing when it is gone or was never there. Throws Error{foreign_buffer} when
  /// another device owns it.
  std::optional<Buffer> resident(std::uint64_t id) const;
  /// The same by owner and id: another owner is refused without a look-up, whether the buffer lives or not.
  std::optional<Buffer> resident(const BufferRef& ref) const;
  /// Releases all memory that is kept for reuse.
  void trim();
  /// Where this device's memory is now.
  MemoryReport memory() const;

  // -- arrays (weft/tensor.h) -----------------------------------------------------------------------------------
  template <class T>
  Tensor upload(std::span<const T> values, const Shape& shape);
  Tensor upload_array(std::span<const std::byte> bytes, const Shape& shape, DType dtype);
  Tensor zeros(const Shape& shape, DType dtype);
  /// Contents undefined.
  Tensor empty(const Shape& shape, DType dtype);

  // -- kernels and work (weft/kernel.h, weft/stream.h) ----------------------------------------------------------
  /// Compiles a user's WGSL. Blocks for the compiler. Throws Error{compile_error} with name, line and column.
  Kernel kernel(const KernelOptions& options);
  /// Compiles several kernels at once on a few threads of the device and returns at once. What kernel() then finds is
  /// ready, or under way and waited for. Each result has its own kernel or error. One text given twice compiles once.
  std::vector<PendingKernel> prepare(std::span<const KernelOptions> options);
  /// A stream of its own.
  Stream make_stream();
  /// The stream that Weft's ops record into on this thread: the default stream, which any thread may use, or the
  /// innermost StreamScope's.
  Stream stream() const;
  /// Runs `record` and keeps what it, and the ops that it calls, record on this thread, for replay (weft/graph.h).
  /// Nothing runs during the capture, but for uploads and writes, which take effect at once; reads throw.
  Graph capture(const std::function<void(const Stream&)>& record);
  /// Submits all that was recorded on every stream of this device and waits until it is done.
  void synchronize(ReadOptions options = {});

  /// Profiles the device while `work` runs (weft/profiler.h): what any thread does on it meanwhile is recorded. Waits
  /// for the work before and after. What `work` throws comes out of this call, and the profile is thrown away.
  Trace profile(const std::function<void()>& work);

  /// Counters since the device was opened.
  Stats stats() const;

  /// For Weft's own layers.
  const std::shared_ptr<detail::DeviceState>& state() const noexcept { return state_; }
  explicit Device(std::shared_ptr<detail::DeviceState> state) noexcept : state_(std::move(state)) {}

 private:
  /// As read does, before anything of that size is allocated on the host.
  void check_elements(const Buffer& buffer, std::size_t first, std::size_t count, std::size_t element_size) const;

  std::shared_ptr<detail::DeviceState> state_;
};

/// The WebGPU implementation this build runs on: "wgpu-native" or "dawn".
std::string_view implementation_name() noexcept;
/// Its version, as it tells: "29.0.1.1"; for Dawn what its package says, or "unknown".
std::string implementation_version();
/// Weft's own version, "0.1.0".
std::string_view version() noexcept;

}  // namespace weft
