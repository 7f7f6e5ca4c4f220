#include "trace.h"

#include <fmt/format.h>

#include <atomic>
#include <mutex>
#include <unordered_set>
#include <utility>

#include "lazy.h"
#include "ops/elementwise.h"

namespace weft::python {
namespace {

struct Trace {
  explicit Trace(const Device& on) : device(on), outside(on.stream()) {
    static std::atomic<std::uint64_t> last{0};
    id = last.fetch_add(1, std::memory_order_relaxed) + 1;
  }
  std::uint64_t id = 0;
  Device device;
  Stream outside;                 ///< what the thread recorded into before
  std::vector<Tensor> constants;  ///< from before the trace, used in it
  // Buffers whose elements no command of the graph writes.
  std::unordered_set<std::uint64_t> arguments, uploads, constant_buffers;

  bool is_given(const Tensor& t) const {
    const std::uint64_t id_of = t.buffer().id();
    return arguments.contains(id_of) || uploads.contains(id_of) || constant_buffers.contains(id_of);
  }
};

thread_local Trace* current = nullptr;

class TraceScope {
 public:
  explicit TraceScope(Trace& trace) : outer_(std::exchange(current, &trace)) {}
  ~TraceScope() { current = outer_; }
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;

 private:
  Trace* outer_;
};

Tensor fresh_copy(Device device, const Tensor& x) {
  Tensor out = device.empty(x.shape(), x.dtype());
  ops::ElementProgram copy;
  copy.run_into(out, copy.input(x));
  return out;
}

bool is_whole(const Tensor& t, std::size_t bytes) {
  return t.offset() == 0 && t.is_contiguous() && t.buffer().size() == bytes;
}

/// A captured function: tensors that stand for its arguments and results, and what they were recorded into. A run puts
/// the caller's arrays in the place of the arguments, and new ones in the place of the results.
class PyGraph {
 public:
  PyGraph(const Device& device, nb::handle specs, nb::handle function) : device_(device) {
    for (const nb::handle spec : nb::borrow<nb::sequence>(specs)) {
      const nb::tuple pair = nb::borrow<nb::tuple>(spec);
      const Shape shape = to_shape(ShapeLike{pair[0]});
      arguments_.push_back({device_.empty(shape, to_dtype(DTypeLike{pair[1]})), false});
    }
    Trace trace(device_);
    for (const Slot& a : arguments_) trace.arguments.insert(a.tensor.buffer().id());
    graph_ = device_.capture([&](const Stream&) {
      const TraceScope scope(trace);
      const LazyScope lazy(true);
      nb::list given;
      for (const Slot& a : arguments_) given.append(nb::cast(Array(Tensor(a.tensor))));
      const nb::object made = nb::borrow(function)(given);
      for (const nb::handle item : nb::borrow<nb::sequence>(made)) add_result(trace, array_tensor(item));
    });
    constants_ = std::move(trace.constants);
    for (Slot& a : arguments_) a.used = graph_.uses(a.tensor.buffer());
    for (Slot& r : results_) r.used = graph_.uses(r.tensor.buffer());
  }
  ~PyGraph() {
    if (forked()) new (std::nothrow) PyGraph(std::move(*this));  // on purpose
  }
  PyGraph(const PyGraph&) = delete;
  PyGraph& operator=(const PyGraph&) = delete;

  nb::list run(nb::handle arrays) {
    check_process();
    std::vector<Tensor> given;
    given.reserve(arguments_.size());
    for (const nb::handle a : nb::borrow<nb::sequence>(arrays)) given.push_back(array_tensor(a));
    if (given.size() != arguments_.size()) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("graph: {} arrays given, {} captured", given.size(), arguments_.size()),
                  "give one for each captured argument");
    }
    std::vector<Tensor> made;
    {
      const ReleaseGil released;
      made = replay(given);
    }
    nb::list out;
    for (Tensor& t : made) out.append(nb::cast(Array(std::move(t))));
    return out;
  }

  nb::list nodes() const {
    nb::list out;
    for (const GraphNode& n : graph_.nodes())
      out.append(nb::make_tuple(n.label, nb::make_tuple(n.grid.x, n.grid.y, n.grid.z)));
    return out;
  }

 private:
  struct Slot {
    Tensor tensor;
    bool used = false;  ///< by the graph's commands
  };

  PyGraph(PyGraph&& other) noexcept
      : device_(other.device_),
        graph_(std::move(other.graph_)),
        arguments_(std::move(other.arguments_)),
        results_(std::move(other.results_)),
        constants_(std::move(other.constants_)) {}

  /// The result as a buffer of its own that the graph writes, so that a new one can take its place.
  void add_result(const Trace& trace, const Tensor& t) {
    bool own = is_whole(t, t.nbytes()) && !trace.is_given(t);
    for (const Slot& r : results_) own = own && !(r.tensor.buffer() == t.buffer());
    results_.push_back({own ? t : fresh_copy(device_, t), false});
  }

  std::vector<Tensor> replay(const std::vector<Tensor>& given) {
    const std::lock_guard lock(mutex_);  // one run of a graph at a time
    swaps_.clear();
    for (std::size_t i = 0; i < given.size(); ++i) {
      const Tensor& wanted = arguments_[i].tensor;
      Tensor t = given[i];
      if (t.shape() != wanted.shape() || t.dtype() != wanted.dtype()) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("graph: argument {} is {} {}, and was captured as {} {}", i, to_string(t.dtype()),
                                to_string(t.shape()), to_string(wanted.dtype()), to_string(wanted.shape())),
                    "give an array of that shape and dtype, or capture another graph");
      }
      if (!arguments_[i].used) continue;
      if (!is_whole(t, wanted.buffer().size())) t = fresh_copy(device_, t);
      swaps_.push_back({wanted.buffer(), t.buffer()});
    }
    std::vector<Tensor> out;
    out.reserve(results_.size());
    for (const Slot& r : results_) {
      out.push_back(device_.empty(r.tensor.shape(), r.tensor.dtype()));
      if (r.used) swaps_.push_back({r.tensor.buffer(), out.back().buffer()});
    }
    graph_.run(swaps_);
    swaps_.clear();
    return out;
  }

  Device device_;
  Graph graph_;
  std::vector<Slot> arguments_;
  std::vector<Slot> results_;
  std::vector<Tensor> constants_;
  std::vector<GraphBinding> swaps_;
  std::mutex mutex_;  ///< never taken with the interpreter's lock held
};

}  // namespace

std::uint64_t current_trace_id() noexcept {
  return current == nullptr ? 0 : current->id;
}

void check_trace(std::uint64_t made_in) {
  if (made_in == 0 || made_in == current_trace_id()) [[likely]]
    return;
  throw Error(ErrorCode::invalid_argument,
              "an array that a function of weft.jit made is used outside of it, and its elements exist only while the "
              "function's graph runs",
              "return it from the function");
}

void note_constant(const Tensor& tensor) {
  if (current == nullptr) return;
  if (tensor.device().id() != current->device.id()) {
    throw Error(ErrorCode::foreign_buffer,
                fmt::format("weft.jit: the function runs on device {} and uses an array of device {}",
                            current->device.id(), tensor.device().id()),
                "bring it there first: weft.asarray(x, device=...)");
  }
  if (current->constant_buffers.insert(tensor.buffer().id()).second) current->constants.push_back(tensor);
}

OutsideTrace::OutsideTrace() {
  if (current != nullptr) scope_.emplace(current->outside);
}
OutsideTrace::~OutsideTrace() = default;

void note_upload(const Tensor& tensor) {
  if (current != nullptr) current->uploads.insert(tensor.buffer().id());
}

IndexCheck index_check() noexcept {
  return current == nullptr ? IndexCheck::checked : IndexCheck::trusted;
}

void refuse_in_trace(const char* what) {
  if (current == nullptr) [[likely]]
    return;
  throw Error(
      ErrorCode::invalid_argument,
      fmt::format("{} inside a function of weft.jit, where nothing has run yet: the elements are not known", what),
      "return the array and read it outside; choose by value with weft.where instead of if");
}

void check_writable_in_trace(const Tensor& tensor, const std::string& binding) {
  if (current == nullptr || !current->is_given(tensor)) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("weft.Kernel: '{}' is written, and is an argument of the function that weft.jit captures, or "
                          "from outside of it",
                          binding),
              "let the kernel make it: out={'" + binding + "': shape}");
}

void bind_trace(nb::module_& m) {
  nb::class_<PyGraph>(m, "_Graph", "What weft.Graph holds.")
      .def(
          "__init__",
          [](PyGraph* self, const PyDevice& device, nb::handle specs, nb::handle function) {
            new (self) PyGraph(device.get(), specs, function);
          },
          nb::arg("device"), nb::arg("specs"), nb::arg("function"))
      .def("run", &PyGraph::run, nb::arg("arrays"))
      .def("nodes", &PyGraph::nodes);
  m.def(
      "_signature",
      [](const Array& a) {
        const Shape& shape = a.shape();
        nb::object out = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(shape.rank()) + 2));
        PyTuple_SetItem(out.ptr(), 0, PyLong_FromLong(static_cast<long>(a.dtype())));
        PyTuple_SetItem(out.ptr(), 1, PyLong_FromUnsignedLongLong(a.device().id()));
        for (std::size_t i = 0; i < shape.rank(); ++i) {
          PyTuple_SetItem(out.ptr(), static_cast<Py_ssize_t>(i) + 2, PyLong_FromLongLong(shape[i]));
        }
        return out;
      },
      "What tells kinds of arrays apart: hashable.");
  m.def("_tracing", [] { return current != nullptr; });
}

}  // namespace weft::python
