// cli/eval_inputs.h - what an evaluation reads.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cli/common_options.h"
#include "weft/device.h"
#include "weft/expr.h"
#include "weft/io.h"

namespace weft::cli {

class Progress;

/// The words name=FILE and name=NUMBER of a command line; files opened, not read.
class EvalInputs {
 public:
  EvalInputs(const std::vector<std::string>& words, const CommonOptions& options);

  const Expression::Types& types() const noexcept { return types_; }
  std::uint64_t bytes() const noexcept { return bytes_; }
  /// All of every array, on the device. Tells what was converted.
  Expression::Values upload(const Device& device, Progress& progress, double& load_ms, double& upload_ms);
  /// The same to be read in blocks; borrows this object.
  Expression::Sources sources();
  /// Tells what was converted while blocks were read.
  void print_notes() const;

 private:
  Expression::Types types_;
  std::map<std::string, io::ComputableFile> files_;
  std::uint64_t bytes_ = 0;
};

}  // namespace weft::cli
