#include "expr/block_run.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/dense_strides.h"
#include "dispatch/state.h"
#include "dispatch/upload_slot.h"
#include "expr/channel.h"
#include "expr/joining.h"
#include "ops/plan_as.h"
#include "weft/ops.h"
#include "weft/stream.h"

namespace weft::expr {
namespace {

/// Blocks of the inputs that are on the host: one is being read, one waits to be sent, one is on its way to the device.
/// Also what bounds the device's work in flight, since staging memory comes back with the copy out of it.
constexpr std::size_t kInputSlots = 3;
/// Blocks of the result that wait for the thread that writes, beside the one that it has.
constexpr std::size_t kResultsAhead = 2;

/// Rows [begin, end).
struct Range {
  std::int64_t begin = 0, end = 0;
  std::int64_t count() const noexcept { return end - begin; }
};

/// A stage of a block, in profiles.
dispatch::HostSpan stage(const BlockJob& job, std::string_view name, std::uint64_t bytes = 0) {
  return {&job.device.state()->host_spans, "blocks", name, bytes};
}

std::size_t dense_bytes(const Shape& shape, DType dtype) {
  return static_cast<std::size_t>(element_count(shape)) * size_of(dtype);
}

/// Reads the inputs' blocks ahead, on a thread of its own, straight into a few pieces of staging memory that go round.
class Reader {
 public:
  using Slot = std::vector<dispatch::UploadSlot>;  ///< by input

  Reader(const BlockJob& job, const BlockPass& pass, const std::vector<Range>& ranges)
      : job_(job), pass_(pass), ranges_(ranges), empty_(kInputSlots), full_(kInputSlots) {
    for (std::size_t i = 0; i < kInputSlots; ++i) {
      Slot slot;
      for (std::size_t k = 0; k < pass.inputs.size(); ++k) slot.emplace_back(job.device);
      empty_.push(std::move(slot));
    }
    thread_ = std::thread([this] { run(); });
  }
  ~Reader() {
    empty_.close();
    full_.close();
    thread_.join();
  }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  /// The next block, to be sent. Throws what reading threw.
  Slot next() {
    const auto span = stage(job_, "wait for the reader");
    std::optional<Slot> slot = full_.pop();
    if (!slot) std::rethrow_exception(error_);
    return std::move(*slot);
  }
  void give_back(Slot slot) { empty_.push(std::move(slot)); }

 private:
  void run() noexcept {
    try {
      for (const Range& rows : ranges_) {
        std::optional<Slot> slot = empty_.pop();
        if (!slot) return;
        for (std::size_t i = 0; i < pass_.inputs.size(); ++i) read(pass_.inputs[i], rows, (*slot)[i]);
        if (!full_.push(std::move(*slot))) return;
      }
    } catch (...) {
      error_ = std::current_exception();
      full_.close();
    }
  }

  void read(OpId id, const Range& rows, dispatch::UploadSlot& to) {
    const std::size_t axis = job_.blocks.inputs.at(id);
    const std::int64_t run = job_.graph.shape(id)[axis] / job_.blocks.rows;
    const std::size_t size = dense_bytes(block_shape(job_.graph, job_.blocks, id, rows.count()), job_.graph.dtype(id));
    std::span<std::byte> bytes;
    {
      const auto span = stage(job_, "wait for the device");
      bytes = to.bytes(size);
    }
    if (size == 0) return;
    const auto span = stage(job_, "read the file", size);
    job_.read(job_.graph[id], axis, rows.begin * run, rows.end * run, bytes);
    job_.advance(size);
  }

  const BlockJob& job_;
  const BlockPass& pass_;
  const std::vector<Range>& ranges_;
  Channel<Slot> empty_, full_;
  std::exception_ptr error_;  // written before full_ closes, read after
  std::thread thread_;
};

/// Waits for results to arrive and hands them on, on a thread of its own.
class Writer {
 public:
  explicit Writer(const BlockJob& job) : job_(job), items_(kResultsAhead), thread_([this] { run(); }) {}
  ~Writer() {
    if (!thread_.joinable()) return;
    abandon_ = true;
    items_.close();
    thread_.join();
  }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  /// Waits while kResultsAhead results are on their way. Throws what writing threw.
  void push(Readback bytes, const Range& elements) {
    const auto span = stage(job_, "wait for the writer");
    if (!items_.push({std::move(bytes), elements})) std::rethrow_exception(error_);
  }
  /// Returns when all is written.
  void finish() {
    items_.close();
    thread_.join();
    if (error_) std::rethrow_exception(error_);
  }

 private:
  struct Item {
    Readback bytes;
    Range elements;
  };

  void run() noexcept {
    try {
      while (std::optional<Item> item = items_.pop()) {
        if (abandon_) return;
        const std::span<const std::byte> bytes = item->bytes.view();
        const auto span = stage(job_, "write the file", bytes.size());
        job_.write(job_.blocks.result().axis.value(), item->elements.begin, item->elements.end, bytes);
        job_.advance(bytes.size());
      }
    } catch (...) {
      error_ = std::current_exception();
      items_.close();
    }
  }

  const BlockJob& job_;
  Channel<Item> items_;
  std::atomic<bool> abandon_{false};
  std::exception_ptr error_;  // written before items_ closes, read after
  std::thread thread_;
};

class Run {
 public:
  explicit Run(const BlockJob& job) : job_(job), device_(job.device) {
    const std::int64_t size = job.blocks.rows / job.count;
    const std::int64_t longer = job.blocks.rows % job.count;
    for (std::int64_t i = 0, begin = 0; i < job.count; ++i) {
      const std::int64_t end = begin + size + (i < longer ? 1 : 0);
      ranges_.push_back({begin, end});
      begin = end;
    }
  }

  std::optional<Tensor> run() {
    for (std::size_t p = 0; p < job_.blocks.passes.size(); ++p) {
      for (std::size_t step : job_.blocks.passes[p].before) whole_step(step);
      pass(p);
      forget(p + 1);
    }
    for (std::size_t step : job_.blocks.after) whole_step(step);
    if (job_.blocks.result().axis) return std::nullopt;
    return whole_.at(job_.blocks.plan.result);
  }

 private:
  const Plan& plan() const { return job_.blocks.plan; }
  const OpCut& place(OpId id) const { return job_.blocks.cuts[id]; }

  void whole_step(std::size_t index) {
    const Step& step = plan().steps[index];
    const Operation& op = job_.graph[step.result];
    if (op.kind == OpKind::input) {
      whole_[step.result] = job_.whole(op);
      return;
    }
    const StepSources sources{
        [&](OpId id) { return whole_.at(id); }, {}, [&](OpId id) { return job_.graph.shape(id); }};
    whole_[step.result] =
        explained(job_.graph, step, job_.explain, [&] { return run_step(device_, job_.graph, step, sources); });
  }

  /// Drops whole tensors that neither pass `next` nor anything behind it reads.
  void forget(std::size_t next) {
    std::vector<bool> read(job_.graph.size());
    read[plan().result] = true;
    const auto mark = [&](const std::vector<std::size_t>& steps) {
      for (std::size_t i : steps) {
        for (OpId operand : plan().steps[i].operands) read[operand] = true;
      }
    };
    for (std::size_t p = next; p < job_.blocks.passes.size(); ++p) {
      mark(job_.blocks.passes[p].before);
      mark(job_.blocks.passes[p].steps);
    }
    mark(job_.blocks.after);
    std::erase_if(whole_, [&](const auto& entry) { return !read[entry.first]; });
  }

  /// The operation whose blocks are joined, its parts so far, and what joins them.
  struct Sum {
    OpId id = 0;
    Joining joining;
    std::vector<Tensor> origin;
    std::unique_ptr<Joiner> parts;
  };

  void pass(std::size_t p) {
    const BlockPass& pass = job_.blocks.passes[p];
    const bool writes = p + 1 == job_.blocks.passes.size() && job_.blocks.result().axis;
    std::unordered_map<OpId, Sum> sums;
    for (std::size_t i : pass.steps) {
      const OpId id = plan().steps[i].result;
      if (!place(id).combined) continue;
      Sum& sum = sums[id];
      sum.id = id;
      sum.joining = joining_of(job_.graph, job_.graph[id], place(id).operands[0].value());
      sum.parts = std::make_unique<Joiner>(sum.joining);
    }
    const std::vector<std::vector<OpId>> release = releases(pass, writes);
    Reader reader(job_, pass, ranges_);
    std::optional<Writer> writer;
    if (writes) writer.emplace(job_);
    for (const Range& rows : ranges_) {
      Reader::Slot slot = reader.next();
      std::unordered_map<OpId, Tensor> tensors;
      for (std::size_t i = 0; i < pass.inputs.size(); ++i)
        tensors[pass.inputs[i]] = send(pass.inputs[i], slot[i], rows);
      reader.give_back(std::move(slot));
      block(pass, rows, tensors, sums, release);
      if (writes) {
        write(*writer, tensors.at(plan().result), rows);
      } else {
        device_.stream().submit();
      }
    }
    if (writer) writer->finish();
    for (auto& [id, sum] : sums) {
      const Step& step = step_of(pass, id);
      whole_[id] = explained(job_.graph, step, job_.explain, [&] { return sum.parts->finish(); });
    }
  }

  const Step& step_of(const BlockPass& pass, OpId id) const {
    const auto it =
        std::find_if(pass.steps.begin(), pass.steps.end(), [&](std::size_t i) { return plan().steps[i].result == id; });
    return plan().steps[*it];
  }

  Tensor send(OpId id, dispatch::UploadSlot& slot, const Range& rows) {
    const Operation& op = job_.graph[id];
    const Shape shape = block_shape(job_.graph, job_.blocks, id, rows.count());
    return Tensor(device_, slot.send(), shape, dense_strides(shape, job_.is_fortran(op)), 0, op.dtype);
  }

  /// By step of the pass: block tensors that no later step of it reads.
  std::vector<std::vector<OpId>> releases(const BlockPass& pass, bool writes) const {
    std::vector<std::vector<OpId>> out(pass.steps.size());
    std::vector<bool> seen(job_.graph.size());
    if (writes) seen[plan().result] = true;
    for (std::size_t at = pass.steps.size(); at-- > 0;) {
      const Step& step = plan().steps[pass.steps[at]];
      for (OpId operand : step.operands) {
        if (!place(operand).axis || seen[operand]) continue;
        seen[operand] = true;
        out[at].push_back(operand);
      }
    }
    return out;
  }

  void block(const BlockPass& pass, const Range& rows, std::unordered_map<OpId, Tensor>& tensors,
             std::unordered_map<OpId, Sum>& sums, const std::vector<std::vector<OpId>>& release) {
    const auto span = stage(job_, "record");
    for (std::size_t at = 0; at < pass.steps.size(); ++at) {
      const Step& step = plan().steps[pass.steps[at]];
      if (job_.graph[step.result].kind == OpKind::input) continue;
      const auto operand = [&](OpId id) { return block_of(step, id, rows, tensors); };
      if (place(step.result).combined) {
        explained(job_.graph, step, job_.explain, [&] {
          join(sums.at(step.result), step, rows, operand);
          return Tensor();
        });
      } else {
        const StepSources sources{
            operand, {}, [&](OpId id) { return block_shape(job_.graph, job_.blocks, id, rows.count()); }};
        const ops::PlanAs all(rows.count(), job_.blocks.rows);
        tensors[step.result] =
            explained(job_.graph, step, job_.explain, [&] { return run_step(device_, job_.graph, step, sources); });
      }
      for (OpId id : release[at]) tensors.erase(id);
    }
  }

  /// What a step reads of one of its operands for a block.
  Tensor block_of(const Step& step, OpId id, const Range& rows, const std::unordered_map<OpId, Tensor>& tensors) const {
    if (place(id).axis) return tensors.at(id);
    const Tensor& whole = whole_.at(id);
    const auto axis = operand_axis(job_.graph, job_.blocks, step, id);
    if (!axis) return whole;
    const std::int64_t run = whole.shape()[*axis] / job_.blocks.rows;
    return slice(whole, static_cast<std::int64_t>(*axis), rows.begin * run, rows.end * run);
  }

  void join(Sum& sum, const Step& step, const Range& rows, const std::function<Tensor(OpId)>& operand) {
    const Operation& op = job_.graph[step.result];
    std::vector<Tensor> operands;
    operands.reserve(op.operands.size());
    for (OpId id : op.operands) operands.push_back(operand(id));
    const std::size_t axis = place(step.result).operands[0].value();
    const std::int64_t run = job_.graph.shape(op.operands[0])[axis] / job_.blocks.rows;
    if (rows.begin == 0 && sum.joining.prepare) sum.origin = sum.joining.prepare(operands);
    Part part;
    part.first = rows.begin * run;
    part.count =
        element_count(operands[0].shape()) / std::max<std::int64_t>(element_count(job_.graph.shape(sum.id)), 1);
    part.values = sum.joining.reduce(operands, sum.origin, part.first);
    sum.parts->add(std::move(part));
  }

  void write(Writer& writer, const Tensor& result, const Range& rows) {
    const std::size_t axis = job_.blocks.result().axis.value();
    const std::int64_t run = job_.graph.shape(plan().result)[axis] / job_.blocks.rows;
    const Tensor dense = contiguous(result);
    const std::size_t begin = static_cast<std::size_t>(dense.offset()) * size_of(dense.dtype());
    writer.push(device_.read_async(dense.buffer(), begin, dense.nbytes()), {rows.begin * run, rows.end * run});
  }

  const BlockJob& job_;
  Device device_;
  std::vector<Range> ranges_;
  std::unordered_map<OpId, Tensor> whole_;
};

}  // namespace

std::optional<Tensor> run_blocks(const BlockJob& job) {
  return Run(job).run();
}

}  // namespace weft::expr
