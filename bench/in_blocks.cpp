// An evaluation in blocks as a share of the slowest of what it overlaps: disk, upload, compute, readback. Each stage is
// measured alone, over the same blocks, by the same calls, as many threads and no more memory than the evaluation has;
// all in this process, in turns, after one round that warms (kernels compiled, memory there). Medians.
//
//   weft_bench_in_blocks [--bytes 2G] [--dir /tmp] [--seconds 20] [--block-bytes N] [--json FILE] [--cold yes]
//
// read: pread by one thread. write: pwrite by one thread, into room taken ahead, and fsync. upload:
// Device::upload_bytes of a block in memory. compute: the expression over a block on the device. readback: read_async,
// two on their way. streamed: Expression::stream from the file into a file, until that is on the disk. copy: the
// control, a memcpy. The file stays in the page cache where it fits there, so «read» is what the system calls cost.
//
// On a CPU device all stages share the cores: «cores» is the processor time of the streamed run over the cores, below
// which no overlapping can bring it.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "weft/device.h"
#include "weft/error.h"
#include "weft/expr.h"
#include "weft/io.h"
#include "weft/stream.h"
#include "weft/tensor.h"

namespace {

using Clock = std::chrono::steady_clock;
namespace fs = std::filesystem;

constexpr std::int64_t kColumns = 1024;
constexpr const char* kExpressions[] = {"sum(x, 0)", "x * 2 + 1", "softmax(x)"};
constexpr const char* kStages[] = {"read", "write", "upload", "compute", "readback"};

struct Options {
  std::uint64_t bytes = std::uint64_t{2} << 30;
  std::uint64_t block_bytes = 0;
  std::string dir = "/tmp";
  std::string json;
  double seconds = 20;
  bool cold = false;
};

std::uint64_t size_of_text(const std::string& text) {
  char* end = nullptr;
  const double n = std::strtod(text.c_str(), &end);
  const double factor = *end == 'K' ? 1 << 10 : *end == 'M' ? 1 << 20 : *end == 'G' ? 1 << 30 : 1;
  return static_cast<std::uint64_t>(n * factor);
}

Options options_of(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    const std::string key = argv[i];
    if (i + 1 == argc) throw std::invalid_argument(key + " has no value");
    const std::string value = argv[++i];
    if (key == "--bytes") {
      o.bytes = size_of_text(value);
    } else if (key == "--block-bytes") {
      o.block_bytes = size_of_text(value);
    } else if (key == "--dir") {
      o.dir = value;
    } else if (key == "--seconds") {
      o.seconds = std::stod(value);
    } else if (key == "--cold") {
      o.cold = value == "yes";
    } else if (key == "--json") {
      o.json = value;
    } else {
      throw std::invalid_argument("no option " + key);
    }
  }
  return o;
}

template <typename F>
double seconds_of(F&& work) {
  const auto start = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double processor_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

void check(bool ok, const std::string& what) {
  if (!ok) throw std::runtime_error(what + ": " + std::strerror(errno));
}

/// As `weft eval` opens it.
weft::Device open_device() {
  weft::DeviceOptions options;
  options.library_kernels_only = true;
  return weft::Device::open(options);
}

class Bench {
 public:
  explicit Bench(const Options& options)
      : options_(options),
        device_(open_device()),
        input_(fs::path(options.dir) / fmt::format("weft-in-blocks-{}.npy", ::getpid())),
        output_(fs::path(options.dir) / fmt::format("weft-in-blocks-{}-out.npy", ::getpid())) {
    const auto rows = static_cast<std::int64_t>(options.bytes / (4 * kColumns));
    shape_ = {rows, kColumns};
    const weft::BlockSource source{{shape_, weft::DType::f32, {}}, false, {}};
    blocks_ = weft::Expression::parse("x + 1").plan_stream(device_, {{"x", source}}, stream_options()).blocks;
    block_rows_ = rows / blocks_;
    shape_ = {block_rows_ * blocks_, kColumns};
    block_.resize(static_cast<std::size_t>(block_rows_ * kColumns));
    std::mt19937 engine(1);  // NOLINT(bugprone-random-generator-seed): the same numbers in each run
    std::normal_distribution<float> normal;
    for (float& v : block_) v = normal(engine);
    weft::io::NpyWriter file(input_, weft::io::FileDType::f32, shape_);
    for (std::int64_t i = 0; i < blocks_; ++i) file.write(0, i * block_rows_, (i + 1) * block_rows_, bytes());
    file.finish();
    on_device_ = device_.upload<float>(block_, {block_rows_, kColumns});
  }
  ~Bench() {
    std::error_code error;
    fs::remove(input_, error);
    fs::remove(output_, error);
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  const weft::Device& device() const { return device_; }
  std::uint64_t total() const { return static_cast<std::uint64_t>(blocks_) * block_.size() * 4; }

  using Sample = std::map<std::string, double>;

  Sample sample(const std::string& text) {
    const weft::Expression expression = weft::Expression::parse(text);
    Sample s;
    s["copy"] = seconds_of([&] { scratch_ = block_; });
    forget_file();
    s["read"] = seconds_of([&] { read(); });
    s["upload"] = seconds_of([&] {
      for (std::int64_t i = 0; i < blocks_; ++i) device_.upload_bytes(bytes());
      device_.synchronize();
    });
    weft::Tensor result;
    s["compute"] = seconds_of([&] {
      for (std::int64_t i = 0; i < blocks_; ++i) {
        result = expression.evaluate(device_, {{"x", on_device_}});
        device_.stream().submit();
      }
      device_.synchronize();
    });
    const bool cut = result.shape() == on_device_.shape();
    if (cut) {
      s["readback"] = seconds_of([&] { read_back(result); });
      s["write"] = seconds_of([&] { write(); });
      fs::remove(output_);  // a new file each time; freeing an old one is nobody's stage
    } else {
      s["readback"] = s["write"] = 0;
    }
    result = {};
    forget_file();
    const double before = processor_seconds();
    s["streamed"] = seconds_of([&] { stream(expression, cut); });
    s["cores"] = (processor_seconds() - before) / std::max(1u, std::thread::hardware_concurrency());
    fs::remove(output_);
    return s;
  }

 private:
  weft::StreamOptions stream_options() const {
    weft::StreamOptions out;
    out.memory = std::uint64_t{2} << 30;
    out.block_bytes = options_.block_bytes;
    return out;
  }
  std::span<const std::byte> bytes() const { return std::as_bytes(std::span(block_)); }

  void forget_file() const {
    if (!options_.cold) return;
    const int fd = ::open(input_.c_str(), O_RDONLY);
    check(fd >= 0, input_.string());
    ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    ::close(fd);
  }

  void read() {
    const int fd = ::open(input_.c_str(), O_RDONLY);
    check(fd >= 0, input_.string());
    scratch_.resize(block_.size());
    for (std::uint64_t at = 0; at < total();) {
      const ssize_t n = ::pread(fd, scratch_.data(), scratch_.size() * 4, static_cast<off_t>(at));
      check(n > 0, input_.string());
      at += static_cast<std::uint64_t>(n);
    }
    ::close(fd);
  }

  void write() {
    const int fd = ::open(output_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    check(fd >= 0, output_.string());
    [[maybe_unused]] const int room = ::fallocate(fd, 0, 0, static_cast<off_t>(total()));
    for (std::int64_t i = 0; i < blocks_; ++i) {
      const auto size = static_cast<ssize_t>(bytes().size());
      check(::pwrite(fd, bytes().data(), bytes().size(), i * size) == size, output_.string());
    }
    check(::fsync(fd) == 0, output_.string());
    ::close(fd);
  }

  void read_back(const weft::Tensor& result) {
    std::deque<weft::Readback> on_their_way;
    for (std::int64_t i = 0; i < blocks_; ++i) {
      on_their_way.push_back(device_.read_async(result.buffer(), 0, result.nbytes()));
      if (on_their_way.size() < 3) continue;
      on_their_way.front().view();
      on_their_way.pop_front();
    }
    for (weft::Readback& r : on_their_way) r.view();
  }

  void stream(const weft::Expression& expression, bool cut) {
    const weft::io::ArrayFile file = weft::io::ArrayFile::open(input_.string());
    const weft::BlockSource source{{shape_, weft::DType::f32, {}},
                                   false,
                                   [&](std::size_t axis, std::int64_t begin, std::int64_t end,
                                       std::span<std::byte> out) { file.read(axis, begin, end, out); }};
    std::optional<weft::io::NpyWriter> writer;
    if (cut) writer.emplace(output_, weft::io::FileDType::f32, shape_);
    const auto whole = expression.stream(
        device_, {{"x", source}},
        [&](std::size_t axis, std::int64_t begin, std::int64_t end, std::span<const std::byte> block) {
          writer->write(axis, begin, end, block);
        },
        stream_options());
    if (writer) writer->finish();
    if (whole) whole->to_host<float>();
  }

  const Options options_;
  weft::Device device_;
  const fs::path input_, output_;
  std::int64_t blocks_ = 0, block_rows_ = 0;
  weft::Shape shape_;
  std::vector<float> block_, scratch_;
  weft::Tensor on_device_;
};

double median(const std::vector<Bench::Sample>& samples, const std::string& key) {
  std::vector<double> values;
  values.reserve(samples.size());
  for (const Bench::Sample& s : samples) values.push_back(s.at(key));
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

int run(const Options& options) {
  Bench bench(options);
  std::map<std::string, std::vector<Bench::Sample>> samples;
  for (const char* text : kExpressions) bench.sample(text);
  const auto start = Clock::now();
  double longest = 0;
  std::size_t rounds = 0;
  for (double now = 0; rounds == 0 || now + longest < options.seconds; ++rounds) {
    longest = std::max(longest, seconds_of([&] {
                         for (const char* text : kExpressions) samples[text].push_back(bench.sample(text));
                       }));
    now = std::chrono::duration<double>(Clock::now() - start).count();
  }
  const weft::AdapterInfo& adapter = bench.device().adapter();
  fmt::print("{} ({}), {}, {:.2f} GB, {} rounds\n", adapter.name, adapter.driver, weft::implementation_name(),
             static_cast<double>(bench.total()) / 1e9, rounds);
  fmt::print("{:12}", "seconds");
  for (const char* stage : kStages) fmt::print(" {:>8}", stage);
  fmt::print(" {:>8} {:>8} {:>8}   of the slowest\n", "streamed", "cores", "copy");
  nlohmann::json results;
  for (const char* text : kExpressions) {
    const auto& of = samples[text];
    nlohmann::json seconds;
    for (const auto& [key, value] : of.front()) seconds[key] = median(of, key);
    const auto second = [&](const char* key) { return seconds[key].get<double>(); };
    std::map<std::string, double> stages = {{"disk", std::max(second("read"), second("write"))},
                                            {"upload", second("upload")},
                                            {"compute", second("compute")},
                                            {"readback", second("readback")}};
    const auto slowest = std::max_element(stages.begin(), stages.end(),
                                          [](const auto& a, const auto& b) { return a.second < b.second; });
    const double share = slowest->second / second("streamed");
    fmt::print("{:12}", text);
    for (const char* stage : kStages) fmt::print(" {:8.3f}", second(stage));
    fmt::print(" {:8.3f} {:8.3f} {:8.4f}   {:.2f} ({}){}\n", second("streamed"), second("cores"), second("copy"), share,
               slowest->first,
               adapter.type == weft::AdapterType::cpu
                   ? fmt::format(", {:.2f} of all cores' time", second("cores") / second("streamed"))
                   : std::string());
    results[text] = {{"seconds", seconds}, {"slowest", slowest->first}, {"share_of_slowest", share}, {"samples", of}};
  }
  if (!options.json.empty()) {
    const nlohmann::json all = {{"device", {{"name", adapter.name}, {"driver", adapter.driver}}}, {"results", results}};
    std::ofstream(options.json) << all.dump(1) << "\n";
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(options_of(argc, argv));
  } catch (const weft::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
  }
  return 1;
}
