// x[items], by numpy's rules, as far as views and one array of indices go.
#include <fmt/format.h>

#include <algorithm>

#include "expr/translate.h"
#include "ops/infer.h"

namespace weft::expr {
namespace {

bool is_array_item(const Value& item) {
  return item.is<TensorRef>() || item.is<Sequence>();
}

bool takes_axis(const Value& item) {
  return !item.is<None>() && !item.is<Ellipsis>();
}

}  // namespace

Value Translator::index(const Node& node) {
  const Index& index = node.as<Index>();
  const Value object = value(index.object);
  std::vector<Value> given;
  given.reserve(index.items.size());
  for (NodeId id : index.items) given.push_back(value(id));
  call_span_ = node.span;
  if (object.is<Sequence>()) return index_sequence(object, given, node.span);
  if (!object.is<TensorRef>()) {
    fail(object.span, "can't be indexed", fmt::format("this is {}", describe(object, graph_)), "index an array");
  }
  return {node.span, TensorRef{index_tensor(object.get_if<TensorRef>()->id, given, node.span)}};
}

Value Translator::index_sequence(const Value& object, const std::vector<Value>& given, Span span) {
  const std::vector<Value>& all = object.get_if<Sequence>()->items;
  const auto length = static_cast<std::int64_t>(all.size());
  if (given.size() != 1) fail(span, "bad index", "a tuple takes one index", "give one number or slice");
  if (const SliceValue* s = given[0].get_if<SliceValue>()) {
    const ops::SliceRange range = at(given[0].span, "bad slice",
                                     [&] { return ops::slice_range(length, s->start, s->stop, s->step.value_or(1)); });
    Sequence out;
    for (std::int64_t i = 0; i < range.count; ++i) {
      out.items.push_back(all[static_cast<std::size_t>(range.start + i * range.step)]);
    }
    return {span, std::move(out)};
  }
  const std::int64_t i = integer(given[0], "the index of a tuple");
  if (i < -length || i >= length) {
    fail(given[0].span, "index out of range", fmt::format("{} is past the {} items", i, length),
         length == 0 ? std::string("index a tuple that has items")
                     : fmt::format("use an index from {} to {}", -length, length - 1),
         ErrorCode::out_of_range);
  }
  Value out = all[static_cast<std::size_t>(i < 0 ? i + length : i)];
  out.span = span;
  return out;
}

OpId Translator::take(OpId x, std::size_t axis, const Value& item) {
  const OpId indices = tensor(item);
  if (graph_.dtype(indices) == DType::bool_) {
    fail(item.span, "a mask can't index", "the length of the result would depend on the data",
         "use where(mask, x, 0), or multiply by the mask");
  }
  // numpy: an empty list is float and yet allowed.
  if (weft::is_float(graph_.dtype(indices)) && element_count(graph_.shape(indices)) != 0) {
    fail(item.span, "indices must be integers", fmt::format("this is {}", describe(item, graph_)),
         "cast them: idx.astype('int32')");
  }
  const auto check_index = [&](std::int64_t n) {
    const std::int64_t length = graph_.shape(x)[axis];
    if (n >= -length && n < length) return;
    fail(item.span, "index out of range",
         fmt::format("{} is past axis {} of length {} of {}", n, axis, length, to_string(graph_.shape(x))),
         length == 0 ? std::string("take from an axis that has elements")
                     : fmt::format("use indices from {} to {}", -length, length - 1),
         ErrorCode::out_of_range);
  };
  const Operation& op = graph_[indices];
  const std::int64_t* number = std::get_if<std::int64_t>(&op.value.value);
  if (op.kind == OpKind::full && number != nullptr && element_count(op.shape) != 0) check_index(*number);
  if (op.kind == OpKind::constant && op.dtype == DType::i32) {
    for (std::size_t i = 0; i < op.bytes.size(); i += sizeof(std::int32_t)) {
      std::int32_t n = 0;
      std::copy_n(&op.bytes[i], sizeof n, reinterpret_cast<std::byte*>(&n));
      check_index(n);
    }
  }
  const OpId whole = weft::is_float(graph_.dtype(indices)) ? graph_.cast(indices, DType::i32) : indices;
  return at(item.span, "can't take these", [&] { return graph_.take(x, whole, axis); });
}

OpId Translator::index_tensor(OpId x, const std::vector<Value>& given, Span span) {
  const Shape shape = graph_.shape(x);
  std::size_t used = 0;
  std::size_t arrays = 0;
  std::size_t ellipses = 0;
  bool has_number = false;
  for (const Value& item : given) {
    used += takes_axis(item) ? 1 : 0;
    has_number |= item.is<Scalar>();
    if (is_array_item(item) && ++arrays == 2) {
      fail(item.span, "more than one array of indices", "one axis can be indexed by an array",
           "index in steps: x[i][:, j]");
    }
    if (item.is<Ellipsis>() && ++ellipses == 2) {
      fail(item.span, "more than one ...", "only one can stand for «all other axes»", "write : for single axes");
    }
  }
  if (used > shape.rank()) {
    const auto last = std::find_if(given.rbegin(), given.rend(), takes_axis);
    fail(last->span, "too many indices", fmt::format("{} for an array of shape {}", used, to_string(shape)),
         shape.rank() == 0 ? std::string("leave the index out: this is a single number")
                           : fmt::format("give at most {}", shape.rank()),
         ErrorCode::out_of_range);
  }
  if (arrays > 0 && has_number) {
    // numpy moves the indexed axes to the front when something stands between them.
    bool between = false;
    bool open = false;
    bool gap = false;
    for (const Value& item : given) {
      const bool advanced = item.is<Scalar>() || is_array_item(item);
      between |= advanced && gap;
      open |= advanced;
      gap |= open && !advanced;
    }
    if (between) {
      fail(span, "numbers and an array apart from each other", "numpy would move the indexed axes to the front",
           "index in two steps: x[0][:, idx]");
    }
  }
  std::size_t axis = 0;
  for (const Value& item : given) {
    if (item.is<None>()) {
      x = at(item.span, "too many axes", [&] { return graph_.expand_dims(x, axis); });
      ++axis;
    } else if (item.is<Ellipsis>()) {
      axis += shape.rank() - used;
    } else if (const SliceValue* s = item.get_if<SliceValue>()) {
      x = at(item.span, "bad slice", [&] { return graph_.slice(x, axis, s->start, s->stop, s->step.value_or(1)); });
      ++axis;
    } else if (is_array_item(item)) {
      const std::size_t rank = graph_.shape(x).rank();
      x = take(x, axis, item);
      axis += graph_.shape(x).rank() + 1 - rank;
    } else if (const Scalar* n = item.get_if<Scalar>(); n != nullptr && std::holds_alternative<bool>(n->value)) {
      fail(item.span, "a mask can't index", "True and False are no positions", "use 1 and 0, or where()");
    } else {
      const std::int64_t i = integer(item, "an index");
      x = at(item.span, "index out of range", [&] { return graph_.select(x, axis, i); });
    }
  }
  return x;
}

}  // namespace weft::expr
