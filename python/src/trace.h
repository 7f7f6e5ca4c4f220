// Tracing: a Python function of arrays is called once while the device captures, and what it recorded is replayed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "weft_python.h"

namespace weft::python {

/// Of the trace that runs on this thread; 0 when none does. Arrays remember the one they were made in.
std::uint64_t current_trace_id() noexcept;

/// Throws for an array of another trace than this thread's: its elements only exist while the graph runs.
void check_trace(std::uint64_t made_in);

/// In a trace, an array from before it is used: it becomes a constant of the graph, which keeps it. Throws when it is
/// another device's. Does nothing outside.
void note_constant(const Tensor& tensor);

/// While one lives in a trace, work is recorded where it would be without the trace: it is no part of the graph.
class OutsideTrace {
 public:
  OutsideTrace();
  ~OutsideTrace();
  OutsideTrace(const OutsideTrace&) = delete;
  OutsideTrace& operator=(const OutsideTrace&) = delete;

 private:
  std::optional<StreamScope> scope_;
};

/// How indices are looked at: in a trace, where nothing can be read, they are trusted. (An index out of range gives 0,
/// or writes nothing.)
IndexCheck index_check() noexcept;

/// In a trace, elements came from the host: they are written once, not by the graph.
void note_upload(const Tensor& tensor);

/// Throws in a trace, where nothing can be read or waited for.
void refuse_in_trace(const char* what);

/// Throws in a trace when `tensor` is an argument of the function or from before it: a graph must not change those.
void check_writable_in_trace(const Tensor& tensor, const std::string& binding);

}  // namespace weft::python
