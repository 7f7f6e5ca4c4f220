#include "webgpu/gpu.h"

#include <fmt/format.h>

#include <utility>

#include "base/env.h"
#include "webgpu/error_capture.h"
#include "webgpu/implementation.h"
#include "weft/error.h"

namespace weft::webgpu {

Gpu::Status* Gpu::new_status() {
  // Never freed, always reachable: Dawn reports the loss of a device after its last reference went, wgpu-native never
  // does, so nobody can say when the last callback was. Some hundred bytes a device.
  static std::mutex mutex;
  static auto* all = new std::vector<std::unique_ptr<Status>>();
  const std::lock_guard lock(mutex);
  return all->emplace_back(std::make_unique<Status>()).get();
}

struct Gpu::Callbacks {
  static void on_error(WGPUDevice const*, WGPUErrorType type, WGPUStringView message, void* user, void*) {
    if (const std::string_view loss = loss_in(text(message)); !loss.empty()) {
      on_lost(nullptr, WGPUDeviceLostReason_Unknown, view(loss), user, nullptr);
    }
    if (ErrorCapture* capture = ErrorCapture::current()) {
      capture->add(type, text(message));
      return;
    }
    auto* status = static_cast<Status*>(user);
    const std::lock_guard lock(status->mutex);
    if (status->errors.size() < 64) status->errors.emplace_back(text(message));
    status->stray.store(true, std::memory_order_release);
  }

  static void on_lost(WGPUDevice const*, WGPUDeviceLostReason reason, WGPUStringView message, void* user, void*) {
    auto* status = static_cast<Status*>(user);
    {
      const std::lock_guard lock(status->mutex);
      if (status->reason.empty()) {
        status->reason = reason == WGPUDeviceLostReason_Destroyed ? "it was destroyed" : std::string(text(message));
      }
    }
    status->lost.store(true, std::memory_order_release);
  }
};

std::unique_ptr<Gpu> Gpu::open(const DeviceOptions& options) {
  std::vector<Candidate> candidates = enumerate_adapters();
  Candidate chosen = std::move(candidates[select_adapter(candidates, options)]);

  std::unique_ptr<Gpu> gpu(new Gpu());
  gpu->info_ = std::move(chosen.info);
  gpu->adapter_ = std::move(chosen.adapter);
  gpu->status_ = new_status();

  Features want = gpu->info_.features;
  want.f16 = want.f16 && options.allow_f16;
  want.subgroups = want.subgroups && options.allow_subgroups;
  if (!want.subgroups || !options.allow_subgroup_matrices) want.subgroup_matrices.clear();
  want.timestamps = want.timestamps && options.allow_timestamps;
  want.immediates = want.immediates && options.allow_immediates && !options.default_limits_only;

  std::vector<WGPUFeatureName> features;
  if (want.f16) features.push_back(WGPUFeatureName_ShaderF16);
  if (want.timestamps) features.push_back(WGPUFeatureName_TimestampQuery);
  add_required_features(want, features);

  WGPULimits limits = WGPU_LIMITS_INIT;
  if (!options.default_limits_only) {
    wgpuAdapterGetLimits(gpu->adapter_.get(), &limits);
    limits.nextInChain = nullptr;
    if (!want.immediates) limits.maxImmediateSize = 0;
  }

  WGPUDeviceDescriptor descriptor = WGPU_DEVICE_DESCRIPTOR_INIT;
  descriptor.label = view("weft");
  descriptor.requiredFeatureCount = features.size();
  descriptor.requiredFeatures = features.data();
  descriptor.requiredLimits = &limits;
  descriptor.defaultQueue.label = view("weft queue");
  descriptor.uncapturedErrorCallbackInfo.callback = &Callbacks::on_error;
  descriptor.uncapturedErrorCallbackInfo.userdata1 = gpu->status_;
  descriptor.deviceLostCallbackInfo.mode = WGPUCallbackMode_AllowSpontaneous;
  descriptor.deviceLostCallbackInfo.callback = &Callbacks::on_lost;
  descriptor.deviceLostCallbackInfo.userdata1 = gpu->status_;

  struct Answer {
    std::atomic<bool> done{false};
    WGPUDevice device = nullptr;
    std::string message;
  } answer;
  WGPURequestDeviceCallbackInfo callback = WGPU_REQUEST_DEVICE_CALLBACK_INFO_INIT;
  callback.mode = WGPUCallbackMode_AllowProcessEvents;
  callback.userdata1 = &answer;
  callback.callback = [](WGPURequestDeviceStatus, WGPUDevice device, WGPUStringView message, void* user, void*) {
    auto* a = static_cast<Answer*>(user);
    a->device = device;
    a->message = text(message);
    a->done.store(true, std::memory_order_release);
  };
  request_device(gpu->adapter_.get(), descriptor, callback, options.library_kernels_only);
  gpu->library_kernels_only_ = options.library_kernels_only;
  Backoff backoff;
  while (!answer.done.load(std::memory_order_acquire)) {
    webgpu::poll(instance(), nullptr);
    backoff.pause(std::chrono::milliseconds(1));
  }
  if (answer.device == nullptr) {
    throw Error(
        ErrorCode::unsupported,
        fmt::format("the adapter '{}' ({}) gave no device: {}", gpu->info_.name, gpu->info_.backend, answer.message),
        "choose another adapter with WEFT_ADAPTER, or update its driver");
  }
  gpu->device_ = answer.device;
  gpu->queue_ = wgpuDeviceGetQueue(answer.device);

  WGPULimits got = WGPU_LIMITS_INIT;
  wgpuDeviceGetLimits(answer.device, &got);
  gpu->limits_ = to_limits(got);
  gpu->features_ = std::move(want);
  if (gpu->limits_.max_immediate_size == 0) gpu->features_.immediates = false;
  if (!gpu->features_.immediates) gpu->limits_.max_immediate_size = 0;
  return gpu;
}

Gpu::~Gpu() {
  if (forked()) return;
  if (queue_ != nullptr) wgpuQueueRelease(queue_);
  if (device_ != nullptr) {
    // Dawn keeps a device alive while work of it is in flight; ending it frees its memory now.
    wgpuDeviceDestroy(device_);
    wgpuDeviceRelease(device_);
  }
}

void Gpu::check_alive(std::string_view what) const {
  if (!lost()) return;
  if (forked()) {
    throw Error(
        ErrorCode::device_lost,
        fmt::format("{}: this process was forked after it had opened the device '{}', and devices do not survive "
                    "a fork",
                    what, info_.name),
        "open the first device after the fork, or start the process anew (fork and exec)");
  }
  std::string reason;
  {
    const std::lock_guard lock(status_->mutex);
    reason = status_->reason;
  }
  throw Error(ErrorCode::device_lost, fmt::format("{}: the device '{}' is lost: {}", what, info_.name, reason),
              "open a new device (Device::open; of a backend, init() again) and upload again");
}

void Gpu::raise(const ErrorCapture& capture, ErrorCode fallback, std::string_view what, std::string_view label) const {
  check_alive(what);
  if (!capture.failed()) return;
  std::string message(capture.message());
  if (capture.type() == WGPUErrorType_OutOfMemory) {
    throw Error(ErrorCode::out_of_memory, fmt::format("{} '{}': the device is out of memory: {}", what, label, message),
                "free buffers, call Device::trim(), or work in smaller pieces");
  }
  const char* fix = fallback == ErrorCode::compile_error
                        ? "correct the WGSL, or what is given to it, as the message says"
                        : "report this with the message: Weft let a bad call through";
  throw Error(fallback, fmt::format("{} '{}': {}", what, label, message), fix);
}

BufferHandle Gpu::create_buffer(std::uint64_t size, std::uint32_t usage, bool mapped, std::string_view label) {
  if (failures_due() > 0 && failures_due_.fetch_sub(1, std::memory_order_relaxed) > 0) {
    throw Error(ErrorCode::out_of_memory, fmt::format("creating the buffer '{}': a test's failure", label),
                "free buffers, call Device::trim(), or work in smaller pieces");
  }
  // For tests of whole programs: a device that has no room for a larger buffer.
  static const std::uint64_t largest = env_bytes("WEFT_TEST_LARGEST_BUFFER").value_or(UINT64_MAX);
  if (size > largest) {
    throw Error(ErrorCode::out_of_memory,
                fmt::format("creating the buffer '{}': {} bytes are over a test's {}", label, size, largest),
                "free buffers, call Device::trim(), or work in smaller pieces");
  }
  const ErrorCapture capture;
  WGPUBufferDescriptor descriptor = WGPU_BUFFER_DESCRIPTOR_INIT;
  descriptor.label = view(label);
  descriptor.size = size;
  descriptor.usage = usage;
  descriptor.mappedAtCreation = mapped ? 1 : 0;
  BufferHandle buffer(wgpuDeviceCreateBuffer(device_, &descriptor));
  raise(capture, ErrorCode::out_of_memory, "creating the buffer", label);
  if (!buffer) {  // mapped at creation and no room on the host
    throw Error(ErrorCode::out_of_memory, fmt::format("creating the buffer '{}': no room for {} bytes", label, size),
                "free buffers, call Device::trim(), or work in smaller pieces");
  }
  return buffer;
}

ShaderModule Gpu::create_module(const std::string& code, const std::string& label, bool trusted) {
  const ErrorCapture capture;
  WGPUShaderSourceWGSL source = WGPU_SHADER_SOURCE_WGSL_INIT;
  source.code = view(code);
  WGPUShaderModuleDescriptor descriptor = WGPU_SHADER_MODULE_DESCRIPTOR_INIT;
  descriptor.nextInChain = &source.chain;
  descriptor.label = view(label);
  ShaderModule module(webgpu::create_module(device_, descriptor, trusted));
  raise(capture, ErrorCode::compile_error, "kernel", label);
  return module;
}

namespace {
WGPUBufferBindingType to_raw(BindingType type) noexcept {
  switch (type) {
    case BindingType::uniform: return WGPUBufferBindingType_Uniform;
    case BindingType::read_only_storage: return WGPUBufferBindingType_ReadOnlyStorage;
    case BindingType::storage: break;
  }
  return WGPUBufferBindingType_Storage;
}
}  // namespace

BindGroupLayout Gpu::create_layout(std::span<const LayoutEntry> entries, std::string_view label) {
  std::vector<WGPUBindGroupLayoutEntry> raw;
  for (const LayoutEntry& e : entries) {
    WGPUBindGroupLayoutEntry entry = WGPU_BIND_GROUP_LAYOUT_ENTRY_INIT;
    entry.binding = e.binding;
    entry.visibility = WGPUShaderStage_Compute;
    entry.buffer.type = to_raw(e.type);
    entry.buffer.minBindingSize = e.min_size;
    raw.push_back(entry);
  }
  const ErrorCapture capture;
  WGPUBindGroupLayoutDescriptor descriptor = WGPU_BIND_GROUP_LAYOUT_DESCRIPTOR_INIT;
  descriptor.label = view(label);
  descriptor.entryCount = raw.size();
  descriptor.entries = raw.data();
  BindGroupLayout layout(wgpuDeviceCreateBindGroupLayout(device_, &descriptor));
  raise(capture, ErrorCode::compile_error, "binding layout of", label);
  return layout;
}

PipelineLayout Gpu::create_pipeline_layout(std::span<const WGPUBindGroupLayout> groups, std::uint32_t immediate_size,
                                           std::string_view label) {
  const ErrorCapture capture;
  WGPUPipelineLayoutDescriptor descriptor = WGPU_PIPELINE_LAYOUT_DESCRIPTOR_INIT;
  descriptor.label = view(label);
  descriptor.bindGroupLayoutCount = groups.size();
  descriptor.bindGroupLayouts = groups.data();
  descriptor.immediateSize = immediate_size;
  PipelineLayout layout(wgpuDeviceCreatePipelineLayout(device_, &descriptor));
  raise(capture, ErrorCode::compile_error, "pipeline layout of", label);
  return layout;
}

Pipeline Gpu::create_pipeline(const ShaderModule& module, const PipelineLayout& layout, const std::string& entry_point,
                              std::span<const Constant> constants, const std::string& label) {
  std::vector<WGPUConstantEntry> raw;
  for (const Constant& c : constants) {
    WGPUConstantEntry entry = WGPU_CONSTANT_ENTRY_INIT;
    entry.key = view(c.name);
    entry.value = c.value;
    raw.push_back(entry);
  }
  const ErrorCapture capture;
  WGPUComputePipelineDescriptor descriptor = WGPU_COMPUTE_PIPELINE_DESCRIPTOR_INIT;
  descriptor.label = view(label);
  descriptor.layout = layout.get();
  descriptor.compute.module = module.get();
  descriptor.compute.entryPoint = view(entry_point);
  descriptor.compute.constantCount = raw.size();
  descriptor.compute.constants = raw.data();
  Pipeline pipeline(wgpuDeviceCreateComputePipeline(device_, &descriptor));
  raise(capture, ErrorCode::compile_error, "kernel", label);
  return pipeline;
}

BindGroup Gpu::create_bind_group(WGPUBindGroupLayout layout, std::span<const GroupEntry> entries,
                                 std::string_view label) {
  WGPUBindGroupEntry raw[64];
  std::size_t n = 0;
  for (const GroupEntry& e : entries) {
    if (n == std::size(raw)) {
      throw Error(ErrorCode::invalid_argument, fmt::format("kernel '{}': more than {} bindings", label, std::size(raw)),
                  "put several arrays into one buffer");
    }
    raw[n] = WGPU_BIND_GROUP_ENTRY_INIT;
    raw[n].binding = e.binding;
    raw[n].buffer = e.buffer;
    raw[n].offset = e.offset;
    raw[n].size = e.size;
    ++n;
  }
  const ErrorCapture capture;
  WGPUBindGroupDescriptor descriptor = WGPU_BIND_GROUP_DESCRIPTOR_INIT;
  descriptor.label = view(label);
  descriptor.layout = layout;
  descriptor.entryCount = n;
  descriptor.entries = raw;
  BindGroup group(wgpuDeviceCreateBindGroup(device_, &descriptor));
  raise(capture, ErrorCode::internal, "bind group of kernel", label);
  return group;
}

Encoder Gpu::create_encoder(std::string_view label) {
  WGPUCommandEncoderDescriptor descriptor = WGPU_COMMAND_ENCODER_DESCRIPTOR_INIT;
  descriptor.label = view(label);
  return Encoder(wgpuDeviceCreateCommandEncoder(device_, &descriptor));
}

QuerySet Gpu::create_query_set(std::uint32_t count, std::string_view label) {
  const ErrorCapture capture;
  WGPUQuerySetDescriptor descriptor = WGPU_QUERY_SET_DESCRIPTOR_INIT;
  descriptor.label = view(label);
  descriptor.type = WGPUQueryType_Timestamp;
  descriptor.count = count;
  QuerySet set(wgpuDeviceCreateQuerySet(device_, &descriptor));
  raise(capture, ErrorCode::internal, "creating the query set", label);
  return set;
}

void Gpu::submit(Encoder encoder, std::string_view label) {
  const ErrorCapture capture;
  CommandBuffer commands(wgpuCommandEncoderFinish(encoder.get(), nullptr));
  WGPUCommandBuffer raw = commands.get();
  if (!capture.failed()) wgpuQueueSubmit(queue_, 1, &raw);
  raise(capture, ErrorCode::internal, "submitting work of", label);
}

void Gpu::write_buffer(WGPUBuffer buffer, std::uint64_t offset, std::span<const std::byte> bytes) {
  wgpuQueueWriteBuffer(queue_, buffer, offset, bytes.data(), bytes.size());
}

void Gpu::submit_writes() {
  // An empty encoder, whose end is where a lost device is an error: wgpu-native ends the process on a submit to one.
  submit(create_encoder("weft.uploads"), "uploads");
}

std::shared_ptr<std::atomic<bool>> Gpu::signal_done() {
  auto done = std::make_shared<std::atomic<bool>>(false);
  WGPUQueueWorkDoneCallbackInfo callback = WGPU_QUEUE_WORK_DONE_CALLBACK_INFO_INIT;
  callback.mode = WGPUCallbackMode_AllowProcessEvents;
  callback.userdata1 = new std::shared_ptr<std::atomic<bool>>(done);
  callback.callback = [](WGPUQueueWorkDoneStatus, WGPUStringView, void* user, void*) {
    auto* held = static_cast<std::shared_ptr<std::atomic<bool>>*>(user);
    (*held)->store(true, std::memory_order_release);
    delete held;
  };
  wgpuQueueOnSubmittedWorkDone(queue_, callback);
  return done;
}

std::shared_ptr<Gpu::MapState> Gpu::map_async(WGPUBuffer buffer, bool for_write, std::uint64_t size) {
  auto state = std::make_shared<MapState>();
  WGPUBufferMapCallbackInfo callback = WGPU_BUFFER_MAP_CALLBACK_INFO_INIT;
  callback.mode = WGPUCallbackMode_AllowProcessEvents;
  callback.userdata1 = new std::shared_ptr<MapState>(state);
  callback.callback = [](WGPUMapAsyncStatus status, WGPUStringView message, void* user, void*) {
    auto* held = static_cast<std::shared_ptr<MapState>*>(user);
    if (status == WGPUMapAsyncStatus_Success) {
      (*held)->status.store(MapStatus::ready, std::memory_order_release);
    } else {
      (*held)->message = text(message);
      (*held)->status.store(MapStatus::failed, std::memory_order_release);
    }
    delete held;
  };
  const ErrorCapture capture;
  wgpuBufferMapAsync(buffer, for_write ? WGPUMapMode_Write : WGPUMapMode_Read, 0, size, callback);
  raise(capture, ErrorCode::internal, "mapping", "staging buffer");
  return state;
}

std::span<std::byte> Gpu::mapped_range(WGPUBuffer buffer, std::uint64_t size, bool for_write) {
  // wgpu-native destroys all buffers of a device that it loses, as it does when it runs out of memory in the middle of
  // something, and ends the process when asked for the range of such a one.
  {
    const ErrorCapture capture;
    ask_for_loss(device_);
  }
  check_alive("mapping");
  // A const range is all that a buffer mapped for reading gives.
  void* data = for_write ? wgpuBufferGetMappedRange(buffer, 0, size)
                         : const_cast<void*>(wgpuBufferGetConstMappedRange(buffer, 0, size));
  if (data == nullptr) {
    check_alive("mapping");
    throw Error(ErrorCode::internal, fmt::format("a mapped range of {} bytes is not to be had", size),
                "report this: the buffer was mapped before");
  }
  return {static_cast<std::byte*>(data), static_cast<std::size_t>(size)};
}

void Gpu::unmap(WGPUBuffer buffer) {
  wgpuBufferUnmap(buffer);
}

std::string Gpu::kernels_identity() const {
  const bool unchecked = bounds_checks_by_device() && library_kernels_only_;
  return device_identity(info_) + (unchecked ? "\nunchecked" : "");
}

void Gpu::poll() {
  webgpu::poll(instance(), device_);
}

void Gpu::destroy() {
  // WebGPU's own destroy waits for ~Gpu: other threads may be reading mapped memory, which it would take from under
  // them (wgpu-native aborts the process on a mapped range of a destroyed buffer).
  Callbacks::on_lost(nullptr, WGPUDeviceLostReason_Destroyed, WGPU_STRING_VIEW_INIT, status_, nullptr);
}

std::vector<std::string> Gpu::take_stray_errors() {
  const std::lock_guard lock(status_->mutex);
  status_->stray.store(false, std::memory_order_release);
  return std::exchange(status_->errors, {});
}

}  // namespace weft::webgpu
