// weft/tune.h - measuring which kernels a device runs fastest, ahead of time.
//
// Ops that have more than one way to work (products, convolutions, attention, softmax and norms, reductions) choose by
// a table that ships with Weft. weft::tune measures the ways on the device at hand and keeps what was best, by classes
// of shapes, in memory for this device and on disk for all that come after it with the same implementation, adapter and
// driver. Nothing measures unless it is called; devices read what is stored when they open (DeviceOptions::tuning,
// WEFT_TUNE=off). docs/tuning.md has more.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "weft/device.h"
#include "weft/dtype.h"
#include "weft/tensor.h"

namespace weft {

/// An op that can be tuned.
struct TunableOp {
  std::string name;                ///< "matmul"
  std::string shapes;              ///< how its shapes are written: "MxNxK or BxMxNxK, ..."
  std::vector<std::string> usual;  ///< the shapes that are measured when none are given, those that matter most first
};
std::vector<TunableOp> tunable_ops(const Device& device);

/// Where a tuning stands.
struct TuneProgress {
  std::size_t done = 0, total = 0;  ///< shapes
  std::string what;                 ///< "matmul f32 1024x1024x1024"
  double seconds = 0;               ///< since the start
};

struct TuneOptions {
  std::vector<std::string> ops{};     ///< empty: all
  std::vector<DType> dtypes{};        ///< empty: all that the op is tuned for and the device has
  std::vector<std::string> shapes{};  ///< of the one op that is named then; empty: its usual ones
  /// The op that has had the least of it goes on next. No shape is begun after this long, and none that would end later
  /// is kept. At least one candidate is compiled and run in between, so the call may take that much longer.
  std::chrono::nanoseconds budget = std::chrono::seconds(30);
  bool again = false;  ///< measure classes that have a choice already
  bool keep = true;    ///< take the choices, in this device and on disk; false: only measure
  /// Called before each shape, candidate and sample, on the calling thread; false ends the tuning as the budget does.
  std::function<bool(const TuneProgress&)> progress{};
};

/// What came out for one shape class.
struct TuneResult {
  std::string op;                     ///< "matmul"
  std::string shape;                  ///< "f32 1024x1024x1024", at which it was measured
  std::string key;                    ///< of the class
  std::string plan;                   ///< that was chosen; "default" where nothing was faster by 3 %
  double default_seconds = 0;         ///< of the plan that ships; the better one of two series
  double seconds = 0;                 ///< of the one chosen, taken in turns with these
  double control = 0;                 ///< the worse of the two series over the better; 0 where nothing came so far
  std::size_t candidates = 0;         ///< plans, with the one that ships
  std::size_t slow = 0;               ///< given up early: over 1.5 times the best
  std::vector<std::string> failures;  ///< plans that did not compile, or gave other results than the one that ships
};

struct TuneReport {
  std::vector<TuneResult> results;
  std::size_t stored_before = 0;   ///< classes left alone, since they had a choice
  std::size_t without_choice = 0;  ///< shapes of which this device has one kernel alone
  std::size_t left = 0;            ///< shapes that the budget did not reach
  bool gpu_times = false;          ///< by the device's timestamps; else by the host's clock
  double seconds = 0;
};

/// Measures: each class of shapes by all plans that the device can run, a few samples in turns, those that are 1.5
/// times slower than the best given up early, results compared with those of the plan that ships. Each finished class
/// is kept at once. Blocks up to about the budget; wants the device to itself. Throws Error{invalid_argument} for
/// unknown ops and shapes, and when choices are to be kept but there is nowhere (WEFT_CACHE=0); Error{io_error} when
/// they can't be written; Error{device_lost}.
TuneReport tune(const Device& device, const TuneOptions& options = {});

/// True where a device that was opened with DeviceOptions::library_kernels_only has choices of its own, and is to be
/// tuned apart: on Dawn, whose kernels have bounds checks on all other devices.
bool library_devices_tune_apart() noexcept;

/// A choice that this device has.
struct TunedChoice {
  std::string key;   ///< of the class: "matmul float32 gpu nn m10 n10 k10 b0"
  std::string plan;  ///< in words; "default": the plan that ships was best
};
/// Those in use, by key: what was read when the device opened, and what tune added. None where TuningMode is off.
std::vector<TunedChoice> tuned_choices(const Device& device);
/// Forgets them, also on disk. Ops take the plans that ship from then on. Devices that are open keep theirs.
void clear_tuned_choices(const Device& device);

}  // namespace weft
