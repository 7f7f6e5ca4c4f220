// cli/arrays.h - between files and the device.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "weft/device.h"
#include "weft/io.h"
#include "weft/ops.h"
#include "weft/tensor.h"

namespace weft::cli {

class Progress;

/// "name=value" at its first '='. Throws Error{invalid_argument} without one, or without a name; `what` says what was
/// expected ("name=FILE").
std::pair<std::string, std::string> split_assignment(const std::string& text, std::string_view what);

/// A number in Python's decimal notation: digits, one point, an exponent, a sign. Not inf, nan, 0x10: those may be
/// files.
std::optional<Scalar> parse_number(std::string_view text);

/// What an input names: - is the standard input, -:x an array in an archive that comes through it.
std::string input_path(const std::string& value);

/// The path that an output names: - is the standard output. Throws Error{invalid_argument} when that is to take the
/// command's own JSON too.
std::string output_path(const std::string& value, bool json);

/// Uploads the bytes as they lie in the file, strides kept, so a transposed file is a view.
Tensor upload(const Device& device, const io::HostArray& array, Progress* progress = nullptr,
              Usage usage = kDefaultUsage);

/// A tensor's elements on the host, row-major.
struct HostBytes {
  std::unique_ptr<std::byte[]> data;
  std::size_t size = 0;
  std::span<const std::byte> span() const noexcept { return {data.get(), size}; }
};
HostBytes download(const Tensor& tensor, Progress* progress = nullptr);

/// A pipe, a device, the standard output: what is written there is gone from us at once.
bool is_written_in_place(const std::filesystem::path& path);

/// Throws Error{io_error} when `path` can't be written later: no such folder, no permission, a folder itself; or when
/// it has the name of a format that is not written. Creates nothing.
void check_output(const std::filesystem::path& path);
/// True when both name one file, there or not.
bool is_same_file(const std::filesystem::path& a, const std::filesystem::path& b);

/// io::save_npy, with interrupts held back while the file is being written.
void save(const std::filesystem::path& path, const Tensor& like, const HostBytes& bytes);

}  // namespace weft::cli
