// Drives weft::io from other languages' tests. Commands, as arguments or one a line on stdin with tabs between fields:
//   cat SPEC                        "<dtype> <shape> <mapped>\n" and the elements, row-major, little-endian
//   copy SPEC OUT [--allow-downcast]  loads, makes computable, saves; answers with the note
//   resave SPEC OUT                 loads and saves with the file's own dtype
//   print SPEC [THRESHOLD]          format_array
//   list PATH                       names, one a line
// From stdin each answer is "ok <bytes>\n" or "error <code> <bytes>\n", then so many bytes. With arguments the answer
// goes to stdout, and an error to stderr with exit status 2.
#include <charconv>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <string>
#include <vector>

#include "weft/error.h"
#include "weft/io.h"

namespace {

using weft::io::HostArray;

std::vector<std::byte> row_major(const HostArray& array) {
  const std::size_t size = weft::io::size_of(array.dtype);
  std::vector<std::byte> out(array.bytes.size());
  weft::Shape index = array.shape;
  for (std::int64_t& i : index) i = 0;
  for (std::size_t done = 0; done < out.size(); done += size) {
    std::int64_t place = 0;
    for (std::size_t axis = 0; axis < index.rank(); ++axis) place += index[axis] * array.strides[axis];
    std::memcpy(&out[done], &array.bytes[static_cast<std::size_t>(place) * size], size);
    for (std::size_t axis = index.rank(); axis-- > 0;) {
      if (++index[axis] < array.shape[axis]) break;
      index[axis] = 0;
    }
  }
  return out;
}

std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

[[noreturn]] void bad_command(const std::string& why) {
  throw weft::Error(weft::ErrorCode::invalid_argument, "io_tool: " + why, "read the head of io_tool.cpp");
}

std::string answer(const std::vector<std::string>& words) {
  if (words.size() < 2) bad_command("a command and a file are needed");
  const std::string& command = words[0];
  if (command == "list") {
    std::string out;
    for (const std::string& name : weft::io::list(words[1])) out += name + "\n";
    return out;
  }
  const HostArray array = weft::io::load(words[1]);
  if (command == "cat") {
    return std::string(to_string(array.dtype)) + " " + to_string(array.shape) +
           (array.mapped ? " mapped\n" : " owned\n") + text_of(row_major(array));
  }
  if (command == "print") {
    std::size_t threshold = 1000;
    if (words.size() > 2) std::from_chars(words[2].data(), words[2].data() + words[2].size(), threshold);
    return weft::io::format_array(array.dtype, array.shape, row_major(array), threshold);
  }
  if (words.size() < 3) bad_command("'" + command + "' needs an output file");
  if (command == "resave") {
    weft::io::save_npy(words[2], array.dtype, array.shape, row_major(array));
    return "";
  }
  if (command == "copy") {
    const bool allow = words.size() > 3 && words[3] == "--allow-downcast";
    const weft::io::Conversion made = weft::io::as_device_dtype(array, words[1], allow);
    weft::io::save_npy(words[2], made.array.dtype, made.array.shape, row_major(made.array));
    return made.note.value_or("");
  }
  bad_command("no command '" + command + "'");
}

std::vector<std::string> fields(const std::string& line) {
  std::vector<std::string> out;
  std::size_t begin = 0;
  for (std::size_t tab = line.find('\t'); tab != std::string::npos; tab = line.find('\t', begin)) {
    out.push_back(line.substr(begin, tab - begin));
    begin = tab + 1;
  }
  out.push_back(line.substr(begin));
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) {
    try {
      const std::string out = answer({argv + 1, argv + argc});
      std::cout.write(out.data(), static_cast<std::streamsize>(out.size()));
      return 0;
    } catch (const weft::Error& e) {
      std::cerr << "io_tool: " << e.what() << "\n";
      return 2;
    }
  }
  for (std::string line; std::getline(std::cin, line);) {
    std::string head = "ok ";
    std::string body;
    try {
      body = answer(fields(line));
    } catch (const weft::Error& e) {
      head = "error " + std::string(to_string(e.code())) + " ";
      body = e.what();
    }
    std::cout << head << body.size() << "\n" << body << std::flush;
  }
}
