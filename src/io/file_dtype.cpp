#include "weft/io.h"

namespace weft::io {

std::size_t size_of(FileDType t) noexcept {
  switch (t) {
    case FileDType::bool_:
    case FileDType::i8:
    case FileDType::u8: return 1;
    case FileDType::i16:
    case FileDType::u16:
    case FileDType::f16:
    case FileDType::bf16: return 2;
    case FileDType::i32:
    case FileDType::u32:
    case FileDType::f32: return 4;
    case FileDType::i64:
    case FileDType::u64:
    case FileDType::f64:
    case FileDType::c64: return 8;
    case FileDType::c128: return 16;
  }
  return 1;
}

std::string_view to_string(FileDType t) noexcept {
  switch (t) {
    case FileDType::bool_: return "bool";
    case FileDType::i8: return "int8";
    case FileDType::u8: return "uint8";
    case FileDType::i16: return "int16";
    case FileDType::u16: return "uint16";
    case FileDType::i32: return "int32";
    case FileDType::u32: return "uint32";
    case FileDType::i64: return "int64";
    case FileDType::u64: return "uint64";
    case FileDType::f16: return "float16";
    case FileDType::bf16: return "bfloat16";
    case FileDType::f32: return "float32";
    case FileDType::f64: return "float64";
    case FileDType::c64: return "complex64";
    case FileDType::c128: return "complex128";
  }
  return "?";
}

FileDType file_dtype(DType t) noexcept {
  switch (t) {
    case DType::bool_: return FileDType::bool_;
    case DType::i32: return FileDType::i32;
    case DType::u32: return FileDType::u32;
    case DType::f16: return FileDType::f16;
    case DType::f32: return FileDType::f32;
  }
  return FileDType::f32;
}

std::optional<DType> device_dtype(FileDType t) noexcept {
  switch (t) {
    case FileDType::bool_: return DType::bool_;
    case FileDType::i32: return DType::i32;
    case FileDType::u32: return DType::u32;
    case FileDType::f16: return DType::f16;
    case FileDType::f32: return DType::f32;
    default: return std::nullopt;
  }
}

}  // namespace weft::io
