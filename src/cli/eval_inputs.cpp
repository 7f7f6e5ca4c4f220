#include "cli/eval_inputs.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>
#include <utility>
#include <variant>

#include "cli/arrays.h"
#include "cli/error_report.h"
#include "cli/progress.h"
#include "cli/stats_report.h"
#include "weft/error.h"

namespace weft::cli {
namespace {

const std::string& file_of(const Expression::Types& types, const std::string& name) {
  return std::get<TensorType>(types.at(name)).origin;
}

void print_note_of(const io::ComputableFile& file, const std::string& name) {
  if (const auto note = file.note()) print_note(fmt::format("{}: {}", name, *note));
}

/// What was meant as a number and is none that we read would be looked for as a file, and that be all that is said.
void refuse_unreadable_number(const std::string& name, const std::string& value) {
  std::error_code error;
  if (std::filesystem::exists(value, error)) return;
  const std::string_view digits = std::string_view(value).substr(value.find_first_not_of("+-") == 1 ? 1 : 0);
  const bool is_word = digits == "inf" || digits == "nan" || digits == "True" || digits == "False" || digits == "None";
  const bool begins_as_number = digits[0] >= '0' && digits[0] <= '9' && digits.find('/') == std::string_view::npos &&
                                digits.find('.') == digits.rfind('.');
  const bool has_file_name = value.ends_with(".npy") || value.ends_with(".npz") || value.ends_with(".safetensors");
  if (!is_word && (!begins_as_number || has_file_name)) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{}={}: no file, and no decimal number of at most 64 bits", name, value),
              fmt::format("{}, or correct the path",
                          is_word ? fmt::format("write {} into the expression", value) : "correct the number"));
}

}  // namespace

EvalInputs::EvalInputs(const std::vector<std::string>& words, const CommonOptions& options) {
  for (const std::string& word : words) {
    const auto [name, given] = split_assignment(word, "name=FILE or name=NUMBER");
    const std::string value = input_path(given);
    if (types_.contains(name)) {
      throw Error(ErrorCode::invalid_argument, fmt::format("'{}' is given twice", name), "give each name once");
    }
    if (const auto number = parse_number(value)) {
      types_.emplace(name, *number);
      continue;
    }
    refuse_unreadable_number(name, value);
    io::ComputableFile file(io::ArrayFile::open(value), value, options.allow_downcast);
    const Shape& shape = file.file().shape();
    types_.emplace(name, TensorType{shape, file.dtype(), value});
    bytes_ += static_cast<std::uint64_t>(element_count(shape)) * size_of(file.dtype());
    files_.emplace(name, std::move(file));
  }
}

Expression::Values EvalInputs::upload(const Device& device, Progress& progress, double& load_ms, double& upload_ms) {
  Expression::Values out;
  std::map<std::string, io::HostArray> arrays;
  {
    const Stopwatch watch(load_ms);
    progress.phase("loading");
    for (auto& [name, file] : files_) {
      arrays.emplace(name, file.load());
      print_note_of(file, file_of(types_, name));
    }
  }
  const Stopwatch watch(upload_ms);
  progress.phase("uploading", bytes_);
  for (const auto& [name, type] : types_) {
    if (const Scalar* number = std::get_if<Scalar>(&type))
      out.emplace(name, *number);
    else
      out.emplace(name, cli::upload(device, arrays.at(name), &progress));
  }
  return out;
}

Expression::Sources EvalInputs::sources() {
  Expression::Sources out;
  for (const auto& [name, type] : types_) {
    if (const Scalar* number = std::get_if<Scalar>(&type)) {
      out.emplace(name, *number);
      continue;
    }
    io::ComputableFile& file = files_.at(name);
    out.emplace(name, BlockSource{std::get<TensorType>(type), file.file().fortran_order(),
                                  [&file](std::size_t axis, std::int64_t begin, std::int64_t end,
                                          std::span<std::byte> to) { file.read(axis, begin, end, to); }});
  }
  return out;
}

void EvalInputs::print_notes() const {
  for (const auto& [name, file] : files_) print_note_of(file, file_of(types_, name));
}

}  // namespace weft::cli
