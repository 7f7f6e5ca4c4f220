#include <array>
#include <optional>
#include <vector>

#include "ops/catalog.h"
#include "ops/element_codegen.h"
#include "ops/elementwise.h"
#include "weft/error.h"

namespace weft::ops {
namespace {

constexpr std::string_view kAll = "f32, f16, i32, u32, bool";
constexpr std::string_view kNumbers = "f32, f16, i32, u32";
constexpr std::string_view kWhole = "i32, u32, bool";
constexpr std::string_view kToReal = "f32, f16; i32, u32, bool give f32";
constexpr std::string_view kToBool = "f32, f16, i32, u32, bool; gives bool";

constexpr std::array kOps{
    OpEntry{"negative", kNumbers, "-x", "numpy.negative; torch.neg; ONNX Neg", "-", "exact"},
    OpEntry{"positive", kNumbers, "x", "numpy.positive", "-", "exact"},
    OpEntry{"abs", kAll, "|x|", "numpy.absolute; torch.abs; ONNX Abs", "-", "exact"},
    OpEntry{"sign", kNumbers, "-1, 0 or 1; NaN stays", "numpy.sign; torch.sign; ONNX Sign", "-", "exact"},
    OpEntry{"invert", kWhole, "~x; of bool not x", "numpy.invert; torch.bitwise_not; ONNX BitwiseNot, Not", "-",
            "exact"},
    OpEntry{"logical_not", kToBool, "x == 0", "numpy.logical_not; ONNX Not", "-", "exact"},
    OpEntry{"exp", kToReal, "e^x", "numpy.exp; ONNX Exp", "-", "4 ulp"},
    OpEntry{"expm1", kToReal, "e^x - 1", "numpy.expm1; torch.expm1", "-", "4 ulp"},
    OpEntry{"exp2", kToReal, "2^x", "numpy.exp2; torch.exp2", "-", "4 ulp"},
    OpEntry{"log", kToReal, "ln x", "numpy.log; ONNX Log", "-", "4 ulp"},
    OpEntry{"log1p", kToReal, "ln(1 + x)", "numpy.log1p; torch.log1p", "-", "4 ulp"},
    OpEntry{"log2", kToReal, "log2 x", "numpy.log2; torch.log2", "-", "4 ulp"},
    OpEntry{"sqrt", kToReal, "root of x", "numpy.sqrt; ONNX Sqrt", "-", "2.5 ulp"},
    OpEntry{"rsqrt", kToReal, "1 / root of x", "torch.rsqrt", "-", "4 ulp"},
    OpEntry{"square", kAll, "x x", "numpy.square; torch.square", "-", "exact"},
    OpEntry{"reciprocal", kNumbers, "1 / x; of integers 0 but for 1 and -1", "numpy.reciprocal; ONNX Reciprocal", "-",
            "2.5 ulp; integers exact"},
    OpEntry{"sin", kToReal, "sin x, any x", "numpy.sin; ONNX Sin", "-", "2 ulp + 1e-7"},
    OpEntry{"cos", kToReal, "cos x, any x", "numpy.cos; ONNX Cos", "-", "2 ulp + 1e-7"},
    OpEntry{"tan", kToReal, "tan x, any x", "numpy.tan; ONNX Tan", "-", "6 ulp + 1e-7"},
    OpEntry{"tanh", kToReal, "tanh x", "numpy.tanh; ONNX Tanh", "-", "4 ulp"},
    OpEntry{"sigmoid", kToReal, "1 / (1 + e^-x)", "scipy.special.expit; torch.sigmoid; ONNX Sigmoid", "-", "4 ulp"},
    OpEntry{"relu", kAll, "max(x, 0); NaN stays", "torch.relu; ONNX Relu", "-", "exact"},
    OpEntry{"gelu", kToReal, "x (1 + erf(x / root of 2)) / 2", "torch.nn.functional.gelu; ONNX Gelu", "-", "5 ulp"},
    OpEntry{"gelu_tanh", kToReal, "x (1 + tanh(0.79788 (x + 0.044715 x^3))) / 2",
            "torch gelu(approximate='tanh'); ONNX Gelu", "-", "4 ulp, more where it falls below"},
    OpEntry{"silu", kToReal, "x / (1 + e^-x)", "torch.nn.functional.silu; ONNX Swish", "-", "4 ulp"},
    OpEntry{"erf", kToReal, "error function", "scipy.special.erf; ONNX Erf", "-", "4 ulp"},
    OpEntry{"floor", kAll, "largest integer not above x", "numpy.floor; ONNX Floor", "-", "exact"},
    OpEntry{"ceil", kAll, "smallest integer not below x", "numpy.ceil; ONNX Ceil", "-", "exact"},
    OpEntry{"round", kAll, "nearest integer, half to even", "numpy.round; ONNX Round", "-", "exact"},
    OpEntry{"trunc", kAll, "x without its fraction", "numpy.trunc; torch.trunc", "-", "exact"},
    OpEntry{"isnan", kToBool, "x is NaN", "numpy.isnan; ONNX IsNaN", "-", "exact"},
    OpEntry{"isinf", kToBool, "x is infinite", "numpy.isinf; ONNX IsInf", "-", "exact"},
    OpEntry{"isfinite", kToBool, "x is neither", "numpy.isfinite; torch.isfinite", "-", "exact"},
    OpEntry{"add", kAll, "a + b; of bool or", "numpy.add; ONNX Add", "-", "exact"},
    OpEntry{"subtract", kNumbers, "a - b", "numpy.subtract; ONNX Sub", "-", "exact"},
    OpEntry{"multiply", kAll, "a b; of bool and", "numpy.multiply; ONNX Mul", "-", "exact"},
    OpEntry{"divide", kToReal, "a / b", "numpy.divide; ONNX Div (floats)", "-", "2.5 ulp"},
    OpEntry{"floor_divide", kNumbers, "floor(a / b); an integer by 0 gives 0", "numpy.floor_divide; torch.floor_divide",
            "-", "exact"},
    OpEntry{"remainder", kNumbers, "a - b floor(a / b); sign of b", "numpy.remainder; torch.remainder; ONNX Mod", "-",
            "exact"},
    OpEntry{"power", kNumbers, "a^b; integers wrap", "numpy.power; ONNX Pow", "-", "12 ulp; integers exact"},
    OpEntry{"minimum", kAll, "the smaller; NaN stays", "numpy.minimum; ONNX Min", "-", "exact"},
    OpEntry{"maximum", kAll, "the larger; NaN stays", "numpy.maximum; ONNX Max", "-", "exact"},
    OpEntry{"equal", kToBool, "a == b", "numpy.equal; ONNX Equal", "-", "exact"},
    OpEntry{"not_equal", kToBool, "a != b", "numpy.not_equal", "-", "exact"},
    OpEntry{"less", kToBool, "a < b", "numpy.less; ONNX Less", "-", "exact"},
    OpEntry{"less_equal", kToBool, "a <= b", "numpy.less_equal; ONNX LessOrEqual", "-", "exact"},
    OpEntry{"greater", kToBool, "a > b", "numpy.greater; ONNX Greater", "-", "exact"},
    OpEntry{"greater_equal", kToBool, "a >= b", "numpy.greater_equal; ONNX GreaterOrEqual", "-", "exact"},
    OpEntry{"bitwise_and", kWhole, "a & b", "numpy.bitwise_and; ONNX BitwiseAnd, And", "-", "exact"},
    OpEntry{"bitwise_or", kWhole, "a or b, bit by bit", "numpy.bitwise_or; ONNX BitwiseOr, Or", "-", "exact"},
    OpEntry{"bitwise_xor", kWhole, "a ^ b", "numpy.bitwise_xor; ONNX BitwiseXor, Xor", "-", "exact"},
    OpEntry{"left_shift", kWhole, "a << b; 0 from 32 on", "numpy.left_shift; ONNX BitShift", "-", "exact"},
    OpEntry{"right_shift", kWhole, "a >> b; the sign fills up", "numpy.right_shift; ONNX BitShift", "-", "exact"},
    OpEntry{"arctan2", kToReal, "angle of (b, a)", "numpy.arctan2; torch.atan2", "-", "4 ulp"},
    OpEntry{"fmod", kNumbers, "a - b trunc(a / b); sign of a", "numpy.fmod; torch.fmod; ONNX Mod (fmod=1)", "-",
            "exact"},
    OpEntry{"where", kAll, "a where the condition holds, else b", "numpy.where; torch.where; ONNX Where", "-", "exact"},
    OpEntry{"clamp", kAll, "min(max(x, low), high); NaN stays", "numpy.clip; torch.clamp; ONNX Clip", "-", "exact"},
    OpEntry{"cast", kAll, "x in another dtype: towards 0, to the ends, NaN to 0", "numpy.ndarray.astype; ONNX Cast",
            "-", "exact"},
};

constexpr auto kLastUnary = UnaryOp::isfinite;
constexpr auto kLastBinary = BinaryOp::fmod;
static_assert(kOps.size() == static_cast<std::size_t>(kLastUnary) + 1 + static_cast<std::size_t>(kLastBinary) + 1 + 3);

void visit_form(const ElementSlice& slice, const ElementForm& form, const KernelVisitor& visit) {
  KernelOptions options;
  options.source = element_source(slice, form);
  options.label = element_label(slice);
  std::string key;
  element_key(slice, form, key);
  visit(key, options);
}

/// A program's two layouts: all in quads from the start of their memory, and all inputs by their strides.
void visit_program(const ElementProgram& program, std::int32_t result, const KernelVisitor& visit) {
  const ElementSlice slice = slice_of(program.nodes(), result);
  ElementForm form;
  form.out_at_0 = true;
  form.inputs.assign(slice.inputs.size(), Access::quad_at_0);
  visit_form(slice, form, visit);
  if (slice.inputs.empty()) return;
  form.rank = 2;
  form.inputs.assign(slice.inputs.size(), Access::strided);
  visit_form(slice, form, visit);
}

/// Every way to read and to write one dtype, which do not depend on what is computed between.
void visit_layouts(const ElementProgram& copy, std::int32_t result, const KernelVisitor& visit) {
  const ElementSlice slice = slice_of(copy.nodes(), result);
  struct Writing {
    Store store;
    bool at_0, strided;
  };
  for (const Writing& w :
       {Writing{Store::whole, true, false}, Writing{Store::whole, false, false}, Writing{Store::edges, false, false},
        Writing{Store::element, false, false}, Writing{Store::element, false, true}}) {
    if (w.store == Store::element && slice.dtype == DType::bool_) continue;
    for (Access access : {Access::quad, Access::element, Access::single, Access::strided, Access::row_quad,
                          Access::row_single, Access::row_any, Access::in_place, Access::quad_at_0}) {
      const bool rows = access == Access::row_quad || access == Access::row_single || access == Access::row_any;
      const bool dense = access == Access::quad || access == Access::quad_at_0 || access == Access::element ||
                         access == Access::in_place;
      if (w.strided && dense) continue;
      for (std::uint32_t rank : {1u, 2u, 3u, 8u}) {
        if (rank == 1 && rows) continue;
        if (rank == 8 && access != Access::strided && !rows) continue;
        ElementForm form;
        form.store = w.store;
        form.out_at_0 = w.at_0;
        form.strided_out = w.strided;
        form.rank = rank;
        form.rows = rows;
        form.inputs = {access};
        visit_form(slice, form, visit);
      }
    }
  }
}

/// Visits what `build` makes of a program.
template <class Build>
void visit_defined(Build&& build, const KernelVisitor& visit) {
  ElementProgram program;
  std::optional<std::int32_t> result;
  try {
    result = build(program);
  } catch (const Error&) {
    // The op is not defined for these dtypes.
  }
  if (result) visit_program(program, *result, visit);
}

void visit_kernels(const Device& device, const KernelVisitor& visit) {
  std::vector<DType> dtypes{DType::f32, DType::i32, DType::u32, DType::bool_};
  if (device.features().f16) dtypes.push_back(DType::f16);
  Device owner = device;
  for (DType dtype : dtypes) {
    const Tensor x = owner.empty({4}, dtype);
    const Tensor y = owner.empty({4}, dtype);
    for (int op = 0; op <= static_cast<int>(kLastUnary); ++op) {
      visit_defined([&](ElementProgram& p) { return p.unary(static_cast<UnaryOp>(op), p.input(x)); }, visit);
    }
    for (int op = 0; op <= static_cast<int>(kLastBinary); ++op) {
      const auto binary = static_cast<BinaryOp>(op);
      visit_defined(
          [&](ElementProgram& p) {
            const std::int32_t a = p.input(x);
            return p.binary(binary, a, p.input(y));
          },
          visit);
    }
    // A number beside a tensor is a parameter, whatever the op.
    visit_defined(
        [&](ElementProgram& p) {
          const std::int32_t a = p.input(x);
          return p.binary(BinaryOp::add, a, p.scalar(1, dtype));
        },
        visit);
    visit_defined(
        [&](ElementProgram& p) {
          const std::int32_t raised = p.binary(BinaryOp::maximum, p.input(x), p.scalar(0, dtype));
          return p.binary(BinaryOp::minimum, raised, p.scalar(1, dtype));
        },
        visit);
    if (dtype == DType::i32) {
      const Tensor z = owner.empty({4}, DType::u32);
      for (int op = 0; op <= static_cast<int>(kLastBinary); ++op) {
        const auto binary = static_cast<BinaryOp>(op);
        if (!is_comparison(binary)) continue;
        visit_defined(
            [&](ElementProgram& p) {
              const std::int32_t a = p.input(x);
              return p.binary(binary, a, p.input(z));
            },
            visit);
      }
    }
    for (DType other : dtypes) {
      const Tensor z = owner.empty({4}, other);
      visit_defined([&](ElementProgram& p) { return p.cast(p.input(x), other); }, visit);
      visit_defined(
          [&](ElementProgram& p) {
            const std::int32_t condition = p.input(z);
            const std::int32_t a = p.input(x);
            return p.where(condition, a, p.input(y));
          },
          visit);
    }
    visit_defined([&](ElementProgram& p) { return p.scalar(1, dtype); }, visit);       // full
    visit_defined([&](ElementProgram& p) { return p.cast(p.iota(), dtype); }, visit);  // arange
    ElementProgram copy;
    visit_layouts(copy, copy.input(x), visit);
  }
}

}  // namespace

const OpFamily& elementwise_family() {
  static const OpFamily family{"Elementwise", kOps, &visit_kernels};
  return family;
}

}  // namespace weft::ops
